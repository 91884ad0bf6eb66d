"""The score matrix: its file, and the numbers told of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrix_samples import HAND_MADE, HEADER, WIDE, block, matrix, right, write

from conformance import mutants
from conformance.matrix.equivalent import proofs
from conformance.matrix.lines import (
    BadMatrix,
    encode,
    encode_block,
    joined,
    read,
)
from conformance.matrix.telling import NOT_LOADED, SEVERAL_RUNS, Told, kill_set

# --- the file -------------------------------------------------------------------------------------------


def test_a_matrix_comes_back_from_its_file(tmp_path: Path) -> None:
    """Every line, and where the last whole one ends."""
    path = write(tmp_path / "m.jsonl", HAND_MADE)
    found = read(path)
    assert (found.header, found.sessions) == (HAND_MADE.header, HAND_MADE.sessions)
    assert found.blocks == HAND_MADE.blocks
    assert found.end == path.stat().st_size


@pytest.mark.parametrize("kept", ["half a line", "no closing line"])
def test_an_interrupted_block_is_passed_over(tmp_path: Path, kept: str) -> None:
    """Neither counts as asked."""
    path = write(tmp_path / "m.jsonl", HAND_MADE)
    whole = path.stat().st_size
    text = encode_block(block("late", WIDE))
    with path.open("a") as file:
        file.write(text[:-5] if kept == "half a line" else "".join(text.splitlines(keepends=True)[:-1]))
    found = read(path)
    assert found.end == whole
    assert found.blocks == HAND_MADE.blocks


def test_what_is_asked_again_replaces_the_first(tmp_path: Path) -> None:
    """The last block of a name is the one that counts."""
    path = write(tmp_path / "m.jsonl", HAND_MADE)
    again = block("survivor", {"p1 fp16": "fail"})
    with path.open("a") as file:
        file.write(encode_block(again))
    assert read(path).blocks["mutant:survivor"] == again


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"type":"session","seconds":1,"jobs":2}\n',
        encode(HEADER) * 2,
        encode(HEADER) + "[]\n",
        encode(HEADER) + '{"type":"run","spec":"mutant:a","wrong":1}\n',
        encode(HEADER) + '{"type":"other"}\n',
    ],
)
def test_what_is_no_matrix_is_refused(tmp_path: Path, text: str) -> None:
    """With what to give instead."""
    (tmp_path / "m.jsonl").write_text(text)
    with pytest.raises(BadMatrix, match="score --full"):
        read(tmp_path / "m.jsonl")


def test_a_block_that_lost_a_line_is_refused(tmp_path: Path) -> None:
    """The closing line says how many there were."""
    path = write(tmp_path / "m.jsonl", matrix(block("a", WIDE)))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:1] + lines[2:]))
    with pytest.raises(BadMatrix, match=r"mutant:a closes with .*4.*, but its lines hold .*3"):
        read(path)


def test_shards_are_joined() -> None:
    """Names, blocks and sessions of both."""
    one, two = (
        matrix(block("a", WIDE)),
        matrix(block("b", WIDE), names=("mutant:b", "mutant:c"), date="later"),
    )
    both = joined([("1", one), ("2", two)])
    assert set(both.blocks) == {"mutant:a", "mutant:b"}
    assert both.header.names == ("mutant:a", "mutant:b", "mutant:c")
    assert len(both.sessions) == 2


@pytest.mark.parametrize(
    "other",
    [{"cases_digest": "sha256:1"}, {"device": "NVIDIA H200"}, {"only": ("core/*",)}, {"torch": "2.7.0"}],
)
def test_files_of_different_questions_are_not_joined(other: dict[str, object]) -> None:
    """Another digest, machine, part of the runs or version."""
    with pytest.raises(BadMatrix, match=f"2 has {next(iter(other))}"):
        joined([("1", matrix(block("a", WIDE))), ("2", matrix(block("b", WIDE), **other))])


def test_one_name_in_two_files_is_refused() -> None:
    """It would count twice."""
    with pytest.raises(BadMatrix, match="mutant:a"):
        joined([("1", matrix(block("a", WIDE))), ("2", matrix(block("a", WIDE)))])


# --- what is told ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told() -> Told:
    return Told(HAND_MADE, claims={"mutant:one_dtype": "a large x"}, proved={})


def test_the_kill_sets(told: Told) -> None:
    """Case and check; a crash counts for `completes`; what several runs show has no case."""
    sets = {spec.removeprefix("mutant:"): kill_set(b) for spec, b in HAND_MADE.blocks.items()}
    assert sets["everywhere"] == {("f/p", "values"), ("f/q", "guards"), ("f/q", "values")}
    assert sets["one_dtype"] == {("f/p", "values")}
    assert sets["crashes"] == {("f/p", "completes")}
    assert sets["compared"] == {(SEVERAL_RUNS, "refusal")}
    assert sets["unloaded"] == {(NOT_LOADED, "ImportFailed")}
    assert not sets["survivor"]
    assert len(told.kill_sets) == 5
    assert told.alike == [["mutant:everywhere", "mutant:twin"]]


def test_the_killed(told: Told) -> None:
    """All but the one that no run killed; broken is no kill."""
    assert (len(told.killed), len(told.wrong)) == (6, 7)
    assert told.survivors == ["mutant:survivor"]
    assert (told.named, [b.closing.spec for b in told.misnamed]) == (5, ["mutant:twin"])
    assert [b.closing.spec for b in told.accused] == ["variant:accused", "variant:silent"]
    assert not told.good


def test_by_dtype(told: Told) -> None:
    """Who was asked in it and who was killed in it, with the claim of those that were not."""
    fp16, bf16, fp32 = told.by_dtype
    assert (fp16.asked, fp16.killed) == (6, 3)
    assert [s.spec for s in fp16.survivors] == ["mutant:compared", "mutant:crashes", "mutant:survivor"]
    assert (bf16.asked, bf16.killed) == (5, 3)
    assert [(s.spec, s.claim) for s in bf16.survivors] == [
        ("mutant:compared", ""),
        ("mutant:one_dtype", "a large x"),
    ]
    assert (fp32.asked, fp32.killed) == (0, 0)  # a refusal is no answer


def test_the_easy_and_the_hard(told: Told) -> None:
    """By cases and by runs, and those that no single run shows."""
    easy = ["mutant:everywhere", "mutant:twin", "mutant:unloaded"]
    assert told.by_most_cases == easy
    assert told.by_most_runs == easy
    assert told.by_few_runs == ["mutant:crashes", "mutant:one_dtype"]
    assert told.only_compared == ["mutant:compared"]


def test_what_a_case_is_worth(told: Told) -> None:
    """p alone kills what crashes in bf16 and what fails in fp16; q only what p kills too."""
    assert told.cases.alone == ("f/p",)
    assert told.cases.replaceable == ("f/q",)
    assert told.cases.nothing == ()
    assert told.runs.alone == ("f/p[none,bf16,h=2]", "f/p[none,fp16,h=1]")
    assert told.runs.nothing == ()


def test_how_much_was_asked(told: Told) -> None:
    """Triples of mutant, case and dtype; all verdicts; the time."""
    assert told.asked == 4 + 4 + 3 + 3 + 2 + 1
    assert told.verdicts == {"pass": 10, "fail": 10, "crash": 1, "unsupported": 1, "broken": 1, "warn": 1}
    assert told.computed == 20.0
    implementations, cases = told.slowest(1)
    assert implementations == [("mutant:compared", 2.0)]
    assert cases == [("f/p", 6.5)]


def test_a_proof_takes_a_survivor_off_the_list_and_can_be_refuted() -> None:
    """It is listed as proved; a kill in that dtype refutes it."""
    made = matrix(block("same", {"p1 fp16": "pass"}, named=()), right("well", {"p1 fp16": "pass"}))
    assert Told(made, claims={}, proved={}).survivors == ["mutant:same"]
    proved = Told(made, claims={}, proved={"mutant:same": {"fp16": "because"}})
    assert proved.survivors == []
    assert [s.proof for s in proved.by_dtype[0].proved] == ["because"]
    assert proved.good
    killed = matrix(block("same", {"p1 fp16": "fail"}))
    refuted = Told(killed, claims={}, proved={"mutant:same": {"fp16": "because"}})
    assert refuted.refuted == ["mutant:same"]
    assert not refuted.good


@pytest.mark.parametrize("value", ['{"fp8": "because"}', '{"fp16": ""}', "'fp16'", '{"fp16": PROOF}'])
def test_a_proof_is_a_dtype_and_a_sentence(tmp_path: Path, value: str) -> None:
    """Anything else is refused with the form."""
    (tmp_path / "one.py").write_text(f'"""A fault."""\nEQUIVALENT = {value}\n')
    with pytest.raises(BadMatrix, match="Write EQUIVALENT"):
        proofs("one", tmp_path)


def test_the_proofs_of_the_mutants_can_be_read(tmp_path: Path) -> None:
    """Of all that there are; and of a file with one."""
    for name in mutants.names():
        proofs(name)
    (tmp_path / "one.py").write_text('EQUIVALENT = {"fp16": "because"}\n')
    assert proofs("one", tmp_path) == {"fp16": "because"}
