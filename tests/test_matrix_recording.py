"""The score command: who is asked what, and matrix files that are recorded for real."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from conformance import load, mutants
from conformance.cli import main
from conformance.commands.score import _mistake, _part
from conformance.errors import NoSuchImplementation
from conformance.matrix import quick, recording, rotation
from conformance.matrix.lines import BadMatrix, encode, read
from conformance.matrix.names import chosen, known, longest_first, shard, source, visible
from conformance.matrix.rotation import rotated
from conformance.model import Run
from conformance.score import Score

# --- who is asked ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_shards_are_a_partition(parts: int) -> None:
    """Every name in exactly one, and none much larger than another."""
    names = visible("cpu")
    shards = [shard(names, i, parts) for i in range(1, parts + 1)]
    assert sorted(n for s in shards for n in s) == sorted(names)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_a_gpu_sees_more() -> None:
    """The mutants that need one."""
    unseen = set(visible("NVIDIA H200")) - set(visible("cpu"))
    assert unseen
    assert {mutants.label(n.removeprefix("mutant:")).needs for n in unseen} == {"gpu"}
    assert set(visible("NVIDIA H200")) == set(known())


def test_an_unknown_name_is_refused() -> None:
    """With the one that was meant."""
    with pytest.raises(NoSuchImplementation, match="mutant:eps_outside"):
        chosen(["mutant:eps_outsid"], "cpu")


def test_kernels_of_many_modes_go_first() -> None:
    """Nothing is lost by the order."""
    names = ["mutant:eps_outside", "variant:triton_tiles", "mutant:layer_norm"]
    ordered = longest_first(names)
    assert ordered[0] == "variant:triton_tiles"
    assert sorted(ordered) == sorted(names)


def test_the_source_of_a_name_tells_them_apart() -> None:
    """And is the same each time."""
    assert source("mutant:eps_outside") == source("mutant:eps_outside")
    assert source("mutant:eps_outside") != source("mutant:eps_squared")


@pytest.mark.parametrize("number", [1, 60, 500, 5000])
def test_the_rotations_after_each_other_ask_everything_once(number: int) -> None:
    """No run is left out, and none asked twice."""
    runs = list(range(1069))
    days = max(1, len(runs) // number)
    asked = [rotated(runs, number, 20000 + day, "variant:one") for day in range(days)]
    assert sorted(r for day in asked for r in day) == runs
    assert all(len(day) >= min(number, len(runs)) for day in asked)
    assert rotated(runs, number, 7, "variant:one") == rotated(runs, number, 7, "variant:one")


def test_the_days_of_a_variant_ask_everything() -> None:
    """Forward and training runs, and each day those written for what it should be warned of."""
    runs = [r for case in load.load([load.bundled()]) for r in case.runs if r.mode == "none"]
    spec = "variant:recomputes_rrms"
    days = [quick.of_the_day(runs, spec, day) for day in range(20)]
    assert {r.id for day in days for r in day} == {r.id for r in runs}
    assert len({day[0].id for day in days}) > 1
    for day in days:
        assert len(day) == len({r.id for r in day}) < len(runs) / 3
        assert sum(not r.trains for r in day) >= 60
        assert sum(r.trains for r in day) >= 45
        assert sum("RRMS-READ" in r.requirements for r in day) >= 5


def test_variants_begin_at_different_places() -> None:
    """So that one day asks many runs."""
    starts = {rotated(list(range(1000)), 60, 1, f"variant:{n}")[0] for n in range(40)}
    assert len(starts) > 8


# --- the command ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_a_part_that_is_none_is_refused(given: str) -> None:
    """With what it should be."""
    with pytest.raises(argparse.ArgumentTypeError, match="1 <= i <= n"):
        _part(given)
    assert _part("2/3") == (2, 3)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["--only=core/*"], "--only goes with --full"),
        (["--rotation=0", "--full"], "--rotation goes with the quick score"),
        (["--tell=a.jsonl", "--limit=1"], "--limit goes with --full or --resume"),
        (["--resume=a.jsonl", "--shard=1/2"], "--shard goes with --full"),
        (["mutant:eps_outside", "--resume=a.jsonl"], "a name goes with the quick score or --full"),
        (["--document"], "--document goes with --tell"),
    ],
)
def test_options_that_do_not_go_together(
    line: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Are a wrong command line, before anything is asked."""
    assert main(["score", *line]) == 2
    assert told in capsys.readouterr().err


def test_a_right_command_line_has_no_mistake() -> None:
    """The quick score of a name, in a rotation."""
    options = argparse.Namespace(
        names=["mutant:a"], rotation=3, full=False, resume=None, tell=None, out=None, shard=None, only=[],
        limit=None, document=None,
    )  # fmt: skip
    assert _mistake(options) == ""


# --- for real -------------------------------------------------------------------------------------------

ONLY = "smoke/wired[none,*"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two mutants and a variant, on a few runs."""
    path = tmp_path_factory.mktemp("matrix") / "m.jsonl"
    code = main(
        ["score", "--full", "--device=cpu", f"--only={ONLY}", "-o", str(path), "mutant:eps_squared",
         "mutant:weight_ignored", "variant:pairwise_sum"]
    )  # fmt: skip
    assert code == 0
    return path


def test_a_small_matrix_for_real(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both killed, the variant left alone, all of it a sample."""
    found = read(recorded)
    assert set(found.blocks) == set(found.header.names)
    assert len(found.sessions) == 1
    assert {r.run.split("[")[0] for b in found.blocks.values() for r in b.runs} == {"smoke/wired"}
    weight = found.blocks["mutant:weight_ignored"]
    assert weight.closing.named == ("FORMULA-WEIGHT",)
    assert all(
        r.named == "FORMULA-WEIGHT" and r.failed == (("values", "FORMULA-WEIGHT"),) for r in weight.runs
    )
    assert main(["score", "--tell", str(recorded)]) == 0
    said = capsys.readouterr().out
    assert f"sample: only the runs {ONLY}" in said
    assert "mutants killed: 2 of 2" in said
    assert "right variants accused: 0 of 1" in said


def test_resume_asks_only_what_is_missing(recorded: Path, tmp_path: Path) -> None:
    """A finished one is left alone, the interrupted one asked again, and the file whole."""
    lines = recorded.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if '"type":"implementation"' in line)
    later = {b for b in read(recorded).blocks if b != json.loads(lines[first])["spec"]}
    path = tmp_path / "m.jsonl"
    path.write_text("".join(lines[: first + 2])[:-20])
    said: list[str] = []
    left = recording.resume(path, device="cpu", jobs=1, limit=0.001, told=said.append)
    assert (set(left), said) == (later, [])
    assert read(path).blocks.keys() == {json.loads(lines[first])["spec"]}
    assert recording.resume(path, device="cpu", told=said.append) == []
    assert len(said) == 2
    assert {s: [(r.run, r.verdict) for r in b.runs] for s, b in read(path).blocks.items()} == {
        s: [(r.run, r.verdict) for r in b.runs] for s, b in read(recorded).blocks.items()
    }


@pytest.mark.parametrize("key", ["cases_digest", "suite", "device", "torch"])
def test_a_file_of_other_questions_is_not_resumed(recorded: Path, tmp_path: Path, key: str) -> None:
    """And is left as it was."""
    found = read(recorded)
    text = encode(replace(found.header, **{key: "other"}))  # type: ignore[arg-type]
    (tmp_path / "m.jsonl").write_text(text)
    with pytest.raises(BadMatrix, match=f"begun with {key} 'other'"):
        recording.resume(tmp_path / "m.jsonl", device="cpu")
    assert (tmp_path / "m.jsonl").read_text() == text


def test_what_changed_or_broke_is_asked_again(recorded: Path) -> None:
    """Its block is there and does not count as finished."""
    found = read(recorded)
    spec = "mutant:eps_squared"
    assert recording.finished(found) == set(found.header.names)
    for change in ({"source": "0"}, {"counts": {"broken": 1}}):
        old = found.blocks[spec]
        other = replace(old, closing=replace(old.closing, **change))
        assert spec not in recording.finished(replace(found, blocks={**found.blocks, spec: other}))


def test_a_file_is_not_overwritten(recorded: Path) -> None:
    """It is told to resume it."""
    before = recorded.read_bytes()
    with pytest.raises(BadMatrix, match="--resume"):
        recording.begin(recorded, device="cpu")
    assert recorded.read_bytes() == before


def test_a_variant_is_asked_the_runs_of_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a worker, with the rotation that was given; here the first three of them."""
    asked: list[int] = []
    all_of_them = quick.of_the_day

    def three(runs: list[Run], spec: str, rotation: int) -> list[Run]:
        asked.append(rotation)
        return all_of_them(runs, spec, rotation)[:3]

    monkeypatch.setattr(quick, "of_the_day", three)
    scored = quick.score_variant("variant:pairwise_sum", "cpu", 5)
    assert (scored.right, scored.asked, asked) == (True, 3, [5])


def test_the_number_of_the_rotation_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It repeats the variants' runs; without one it is the day's."""
    used: list[int] = []

    def scores(names: list[str], *, rotation: int, **_: object) -> list[Score]:
        used.append(rotation)
        return [Score(names[0], "FORMULA-ROOT", 1, 1, ("FORMULA-ROOT",), 0, "", (), 1.0)]

    monkeypatch.setattr(quick, "quick", scores)
    monkeypatch.setattr(rotation, "today", lambda: 20500)
    assert main(["score", "--rotation=5", "mutant:a"]) == 0
    assert "--rotation=5 repeats it" in capsys.readouterr().out
    assert main(["score", "mutant:a"]) == 0
    assert "--rotation=20500 repeats it" in capsys.readouterr().out
    assert used == [5, 20500]
