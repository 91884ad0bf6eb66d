"""What of a matrix is published, and what is a sample only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matrix_samples import HAND_MADE, HEADER

from conformance import load
from conformance.matrix import completeness, document, recording
from conformance.matrix.lines import (
    BadMatrix,
    Block,
    Closing,
    Matrix,
    RunLine,
)
from conformance.matrix.names import known, source, visible
from conformance.matrix.telling import Told
from conformance.model import Run


@pytest.fixture(scope="module")
def told() -> Told:
    return Told(HAND_MADE, claims={"mutant:one_dtype": "a large x"}, proved={})


PAGE = "Head.\n<!-- matrix cpu: generated -->\nold\n<!-- matrix cpu: end -->\nTail.\n"


def test_a_sample_says_so_and_writes_no_document(tmp_path: Path, told: Told) -> None:
    """Stamped in the output; the page is left as it was."""
    lacking = completeness.lacking(HAND_MADE)
    assert document.text(told, lacking).startswith("sample: ")
    (tmp_path / "score.md").write_text(PAGE)
    with pytest.raises(BadMatrix, match="a sample changes no document"):
        document.publish(told, lacking, tmp_path / "score.md")
    assert (tmp_path / "score.md").read_text() == PAGE


def test_a_whole_matrix_replaces_its_own_section(tmp_path: Path, told: Told) -> None:
    """With date, duration, digest and counts; a machine without a place in the page is refused."""
    page = tmp_path / "score.md"
    page.write_text(PAGE)
    document.publish(told, [], page)
    text = page.read_text()
    assert text.startswith("Head.\n<!-- matrix cpu: generated -->")
    assert text.endswith("<!-- matrix cpu: end -->\nTail.\n")
    assert "old" not in text
    for wanted in ("2026-01-02T03:04:05Z, 60 s in 1 command", "`sha256:0`", "| mutants killed | 6 of 7 |",
                   "asked (mutant, case, dtype) | 17 |", "mutant:everywhere = mutant:twin"):  # fmt: skip
        assert wanted in text
    document.publish(told, [], page)
    assert page.read_text() == text
    gpu = Told(replace(HAND_MADE, header=replace(HEADER, device="NVIDIA H200")), claims={}, proved={})
    with pytest.raises(BadMatrix, match="matrix gpu"):
        document.publish(gpu, [], page)


def test_the_page_has_a_place_for_each_kind_of_machine() -> None:
    """Both can be published."""
    text = (load.bundled().parent / document.DOCUMENT).read_text("utf-8")
    for kind in ("cpu", "gpu"):
        assert text.count(f"<!-- matrix {kind}: generated -->") == 1
        assert text.count(f"<!-- matrix {kind}: end -->") == 1


@pytest.fixture(scope="module")
def whole() -> Matrix:
    """What a whole matrix of this tree would look like, all passing."""
    header = replace(recording.header(visible("cpu"), device="cpu"), device="cpu")
    runs = [r for case in load.load([load.bundled()]) for r in case.runs]
    return Matrix(header, {spec: _asked_everything(spec, runs) for spec in visible("cpu")})


def _asked_everything(spec: str, runs: list[Run]) -> Block:
    """One that claims mode none, forward only."""
    own = [r for r in runs if r.mode == "none" and not r.trains]
    closing = Closing(spec, known()[spec], (), {"pass": len(own)}, modes=("none",), source=source(spec))
    return Block(closing, tuple(RunLine(spec, r.id, "fp16", "pass") for r in own))


def test_a_whole_matrix_lacks_nothing(whole: Matrix) -> None:
    """All names, all runs of the modes claimed, this suite."""
    assert completeness.lacking(whole) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"only": ("core/*",)}, "only the runs"),
        ({"cases_digest": "sha256:0"}, "another cases digest"),
        ({"suite": "0.0.1"}, "it is of suite 0.0.1"),
    ],
)
def test_another_header_makes_a_sample(whole: Matrix, change: dict[str, object], told: str) -> None:
    """Each says which."""
    (reason,) = completeness.lacking(replace(whole, header=replace(whole.header, **change)))  # type: ignore[arg-type]
    assert told in reason


@pytest.mark.parametrize("what", ["not asked", "changed since", "broken in the suite", "not asked every run"])
def test_less_of_one_name_makes_a_sample(whole: Matrix, what: str) -> None:
    """It, its source, its verdicts or one of its runs."""
    spec = "mutant:eps_outside"
    old = whole.blocks[spec]
    blocks = {**whole.blocks}
    if what == "not asked":
        del blocks[spec]
    elif what == "changed since":
        blocks[spec] = replace(old, closing=replace(old.closing, source="0"))
    elif what == "broken in the suite":
        blocks[spec] = replace(old, closing=replace(old.closing, counts={"broken": 1}))
    else:
        blocks[spec] = replace(old, runs=old.runs[1:])
    assert completeness.lacking(replace(whole, blocks=blocks)) == [f"1 {what}: {spec}"]
