"""Joined result files conclude like one run, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from reporting_samples import (
    EPS_OUTSIDE,
    NO_TAIL,
    REQUIREMENTS,
    core,
    failing,
    header,
    make,
    renamed,
    shuffled,
    some,
    written,
    wrong,
)

from conformance.errors import DifferentCases, IncompleteReport
from conformance.model import Verdict
from conformance.reporting.merge import merge, write
from conformance.reporting.results import Result, Writer, read


def both(tmp_path: Path, verdicts: list[Verdict], **changes) -> list[Result]:
    """Write the verdicts as two shards."""
    halves = verdicts[::2], verdicts[1::2]
    return [
        read(written(tmp_path / f"{i}.jsonl", header("mine", partial=f"shard {i}/2", **changes), half))
        for i, half in enumerate(halves, 1)
    ]


@pytest.mark.parametrize("seed", range(10))
def test_merged_shards_conclude_like_one_run(tmp_path, seed):
    verdicts = [
        *some(),
        *(failing(f"eps/near[{i}]", wrong("SIZE-WIDTH", NO_TAIL, EPS_OUTSIDE)) for i in range(5)),
        make("wide[1]", conventions=("two roundings",)),
        make("size[1]", verdict="unsupported", conventions=(), reason="no"),
    ]
    whole = read(written(tmp_path / "whole.jsonl", header("mine"), verdicts))
    parts = both(tmp_path, shuffled(verdicts, seed))
    for order in (parts, parts[::-1]):
        merged = merge(order, REQUIREMENTS)
        assert merged.implementations == whole.implementations
        assert sorted(map(repr, merged.verdicts)) == sorted(map(repr, whole.verdicts))
        write(tmp_path / "merged.jsonl", merged)
        assert repr(read(tmp_path / "merged.jsonl")) == repr(
            merge([read(tmp_path / "merged.jsonl")], REQUIREMENTS)
        )
        assert read(tmp_path / "merged.jsonl").implementations == whole.implementations


def test_all_shards_together_are_certified_and_one_is_not(tmp_path):
    parts = both(tmp_path, core())
    assert not any(part.result("mine").certified for part in parts)
    assert merge(parts, REQUIREMENTS).result("mine").certified
    assert not merge(parts[:1], REQUIREMENTS).result("mine").certified
    assert merge(parts, REQUIREMENTS).exit == 0


def test_shards_of_different_splits_do_not_complete_each_other(tmp_path):
    first = read(written(tmp_path / "1.jsonl", header("mine", partial="shard 1/2"), core()[::2]))
    other = read(written(tmp_path / "2.jsonl", header("mine", partial="shard 2/3"), core()[1::2]))
    merged = merge([first, other], REQUIREMENTS)
    assert not merged.result("mine").complete
    assert "shard 1/2; shard 2/3" in merged.result("mine").sentence


def test_different_implementations_stand_side_by_side(tmp_path):
    mine = read(written(tmp_path / "1.jsonl", header("mine"), core()))
    theirs = read(written(tmp_path / "2.jsonl", header("theirs", device="NVIDIA H200"), core("theirs")))
    merged = merge([theirs, mine], REQUIREMENTS)
    assert [one.name for one in merged.implementations] == ["mine", "theirs"]
    assert all(one.certified for one in merged.implementations)
    assert merged.header["device"] == "several"
    assert merged.entry("theirs")["environment"]["device"] == "NVIDIA H200"
    assert repr(merged) == repr(merge([mine, theirs], REQUIREMENTS))


def test_a_part_beside_a_whole_run_stays_a_part(tmp_path):
    mine = read(written(tmp_path / "1.jsonl", header("mine", partial="--rn-only"), core()))
    theirs = read(written(tmp_path / "2.jsonl", header("theirs"), core("theirs")))
    merged = merge([mine, theirs], REQUIREMENTS)
    write(tmp_path / "m.jsonl", merged)
    again = merge([read(tmp_path / "m.jsonl")], REQUIREMENTS)
    for result in (merged, again):
        assert not result.result("mine").certified
        assert result.result("theirs").certified


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "0.2.0"},
        {"cases_digest": "sha256:9"},
        {"grade": "base"},
        {"profile": "full"},
        {"seed": 1},
        {"device": "NVIDIA H200"},
    ],
)
def test_what_does_not_fit_together_is_not_merged(tmp_path, change):
    first = read(written(tmp_path / "1.jsonl", header("mine", partial="shard 1/2"), core()[::2]))
    other = read(written(tmp_path / "2.jsonl", header("mine", partial="shard 2/2", **change), core()[1::2]))
    with pytest.raises(DifferentCases, match=next(iter(change)).replace("_", " ")):
        merge([first, other], REQUIREMENTS)


def test_a_run_twice_is_not_merged(tmp_path):
    result = read(written(tmp_path / "1.jsonl", header("mine"), core()))
    with pytest.raises(DifferentCases, match="two verdicts for core/plain"):
        merge([result, result], REQUIREMENTS)


def test_a_part_of_a_file_and_nothing_are_not_merged(tmp_path):
    path = tmp_path / "a.jsonl"
    with Writer(path, header("mine")):
        pass
    with pytest.raises(IncompleteReport):
        merge([read(path, partial=True)], REQUIREMENTS)
    with pytest.raises(IncompleteReport):
        merge([], REQUIREMENTS)


def test_an_interrupted_run_stays_incomplete(tmp_path):
    path = written(tmp_path / "a.jsonl", header("mine"), core(), interrupted="stopped by the user")
    merged = merge([read(path)], REQUIREMENTS)
    assert not merged.result("mine").certified
    assert "stopped by the user" in merged.result("mine").sentence


def test_a_development_run_is_never_certified(tmp_path):
    result = read(written(tmp_path / "a.jsonl", header("mine", development=True), core()))
    assert not result.result("mine").certified
    assert "development" in result.result("mine").sentence


def test_two_implementations_keep_their_verdicts_apart(tmp_path):
    bad = renamed([failing("eps[1]", wrong("SIZE-WIDTH", EPS_OUTSIDE))], "theirs")
    result = read(written(tmp_path / "a.jsonl", header("mine", "theirs"), [*core(), *core("theirs"), *bad]))
    assert result.result("mine").certified
    assert result.result("theirs").named == ("FORMULA-EPS-INSIDE",)
    assert len(result.of("theirs")) == 13
