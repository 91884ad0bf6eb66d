"""Training cases as the loader reads them: which gradients, of which outputs, and what cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_text import cases, error, runs, write

from conformance.errors import BadCase
from conformance.load import load
from conformance.model import Fill

# --- what a training case means ------------------------------------------------------------------------


def test_defaults_of_a_training_run(tmp_path: Path) -> None:
    """Modes none and residual, the training profiles, every output's gradient, fills of their own seeds."""
    found = runs(tmp_path, "shape: [3, 7], gradients: all, dtypes: [{x: float16, weight: float32}]")
    assert list(found) == ["none,x=fp16+w=fp32", "residual,x=fp16+w=fp32"]
    plain, fused = found.values()
    assert (plain.gradients, plain.upstream) == (("x", "weight"), ("y",))
    assert (fused.gradients, fused.upstream) == (("x", "residual", "weight"), ("y", "residual_out"))
    assert {run.profiles for run in found.values()} == {("training", "full")}
    assert all(run.trains for run in found.values())
    assert list(plain.fills) == ["x", "weight", "dy"]
    assert list(fused.fills) == ["x", "residual", "weight", "dy", "dresidual_out"]
    assert (fused.fills["dy"], fused.fills["dresidual_out"]) == (Fill(seed=101), Fill(seed=102))
    assert len({fill.seed for fill in fused.fills.values()}) == 5


def test_a_forward_run_is_none_of_this(tmp_path: Path) -> None:
    """Without gradients nothing arrives, and the cost counts one pass a call."""
    run = runs(tmp_path, "shape: [3, 7], modes: [residual]")["residual,bf16"]
    assert (run.trains, run.gradients, run.upstream, run.cost) == (False, (), (), 21)
    assert "dy" not in run.fills


def test_gradients_and_upstream_of_a_case(tmp_path: Path) -> None:
    """A list is brought into one order; all is what the run has; without a weight none is wanted of it."""
    found = runs(tmp_path, "shape: [3, 7], modes: [residual], gradients: [weight, x], upstream: [y]")
    (run,) = found.values()
    assert (run.gradients, run.upstream) == (("x", "weight"), ("y",))
    assert "dresidual_out" not in run.fills
    found = runs(tmp_path, "shape: [3, 7], weight: none, gradients: all")
    assert [run.gradients for run in found.values()] == [("x",), ("x", "residual")]


def test_gradients_and_upstream_may_vary(tmp_path: Path) -> None:
    """Short words in ids; a list of one name, of several, and the word all."""
    keys = (
        "shape: [3, 7], modes: [residual], "
        "matrix: {gradients: [all, [x], [residual, weight]], upstream: [[y], [residual_out, y]]}"
    )
    found = runs(tmp_path, keys)
    assert list(found) == [
        "residual,bf16,grad=all,up=y", "residual,bf16,grad=all,up=y+residual_out",
        "residual,bf16,grad=x,up=y", "residual,bf16,grad=x,up=y+residual_out",
        "residual,bf16,grad=r+w,up=y", "residual,bf16,grad=r+w,up=y+residual_out",
    ]  # fmt: skip
    assert found["residual,bf16,grad=r+w,up=y"].gradients == ("residual", "weight")


def test_gradients_in_include_and_exclude(tmp_path: Path) -> None:
    """A combination that a mode cannot have is left out by exclude; include has rows of its own."""
    keys = (
        "shape: [3, 7], matrix: {gradients: [[x], [residual]]}, "
        "exclude: [{mode: none, gradients: [residual]}], include: [{mode: none, gradients: [weight]}]"
    )
    assert list(runs(tmp_path, keys)) == [
        "none,bf16,grad=x", "residual,bf16,grad=x", "residual,bf16,grad=r", "none,bf16,grad=w",
    ]  # fmt: skip
    alone = runs(
        tmp_path, "shape: [3, 7], include: [{gradients: all, layouts.dy: transposed, dy.scale: 2.0}]"
    )
    assert list(alone) == [f"{mode},bf16,grad=all,dy=transposed,dy.scale=2" for mode in ("none", "residual")]
    assert alone["none,bf16,grad=all,dy=transposed,dy.scale=2"].fills["dy"] == Fill(seed=101, scale=2.0)


def test_fills_and_dtypes_of_what_arrives(tmp_path: Path) -> None:
    """dy has x's dtype, dresidual_out residual's, and so have numbers that are given by dtype."""
    keys = (
        "shape: [3, 7], modes: [residual], gradients: all, dtypes: [{x: float16, residual: float32}], "
        "dy: {scale: {float16: 2.0}}, dresidual_out: {mean: {float32: 3.0}}"
    )
    (run,) = runs(tmp_path, keys).values()
    assert (run.fills["dy"].scale, run.fills["dresidual_out"].mean) == (2.0, 3.0)
    assert (run.dtype_of("dy"), run.dtype_of("dresidual_out")) == ("float16", "float32")


def test_values_of_a_tensor_that_some_runs_have(tmp_path: Path) -> None:
    """Like a residual in a case that has mode none too, they are for the runs that have the tensor."""
    keys = "shape: [3, 7], gradients: all, dresidual_out: {scale: 2.0}"
    plain, fused = runs(tmp_path, keys).values()
    assert "dresidual_out" not in plain.fills
    assert fused.fills["dresidual_out"].scale == 2.0


def test_cost_counts_forward_and_backward(tmp_path: Path) -> None:
    """Three calls of two passes for repeat; one forward and two backwards over a retained graph."""
    scenarios = "[once, repeat, new_contents, retained, interleaved, saved_statistic]"
    keys = f"shape: [2, 3], modes: [none], gradients: all, matrix: {{scenario: {scenarios}}}"
    assert [run.cost for run in runs(tmp_path, keys).values()] == [12, 36, 24, 18, 24, 24]


def test_one_element_for_all_columns(tmp_path: Path) -> None:
    """A gradient of rank 1 may be expanded from one element, as below a sum."""
    keys = "shape: [7], modes: [none], gradients: all, layouts: {dy: expanded}, dy: {kind: constant}"
    assert runs(tmp_path, keys)["none,bf16"].layouts == {"dy": "expanded"}


# --- mistakes ------------------------------------------------------------------------------------------

ONE = (
    "cases:\n  - id: one\n    about: a wrong kernel\n    requirements: [FORMULA-WEIGHT]\n    shape: [2, 3]\n"
)

FORMAT = {
    "unknown gradient": ("gradients: [wieght]", "cases[0].gradients[0]", "'weight'?"),
    "a word": ("gradients: x", "cases[0].gradients", "Write [x], or the word all"),
    "no gradient": ("gradients: []", "cases[0].gradients", "nothing would be asked"),
    "a gradient twice": ("gradients: [x, x]", "cases[0].gradients[1]", "Remove one"),
    "a number": ("gradients: 1", "cases[0].gradients", "should be a list"),
    "unknown output": ("upstream: [dy]", "cases[0].upstream[0]", "'y'?"),
    "the same list twice": (
        "matrix: {gradients: [[x, weight], [weight, x]]}", "cases[0].matrix.gradients[1]", "is given twice",
    ),
    "a list in place of lists": ("matrix: {gradients: [x]}", "cases[0].matrix.gradients[0]", "Write [x]"),
    "a fill of dy": ("dy: bell", "cases[0].dy", "should be a mapping"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMAT)
def test_mistakes_in_the_format(tmp_path: Path, name: str) -> None:
    """Each mistake is found at its line and key, with what to write instead."""
    keys, key, words = FORMAT[name]
    found = error(tmp_path, ONE + f"    {keys}\n")
    assert (found.file, found.line, found.key) == ("mine.yaml", 8, key)
    assert words in f"{found.message} {found.hint}", str(found)


TRAINS = "gradients: all, "
FUSED = f"{TRAINS}modes: [residual], "
PLAIN = f"{TRAINS}modes: [none], "

IMPOSSIBLE = {
    "in place": (f"{TRAINS}modes: [residual_in_place]", "Write modes: [none, residual]"),
    "residual_out in mode none": (f"{TRAINS}upstream: [residual_out]", "modes: [residual], or upstream: [y]"),
    "residual in mode none": ("gradients: [x, residual]", "or exclude mode none there"),
    "weight without weight": ("gradients: [x, weight], weight: none", "remove weight: none"),
    "nothing depends on it": (
        "gradients: [weight], modes: [residual], upstream: [residual_out]", "Add y to upstream",
    ),
    "retained without gradients": ("scenario: retained", "Write gradients: all"),
    "saved_statistic without gradients": ("scenario: saved_statistic", "Write gradients: all"),
    "upstream without gradients": ("upstream: [y]", "Write gradients: all"),
    "dy without gradients": ("dy: {scale: 2.0}", "ask for gradients with y in upstream"),
    "dy that does not arrive": (FUSED + "upstream: [residual_out], dy: {scale: 2.0}", "y in upstream"),
    "dresidual_out in mode none": (PLAIN + "dresidual_out: {scale: 2.0}", "gradients in mode residual"),
    "dy varied, but absent": ("matrix: {dy.scale: [1.0, 2.0]}", "ask for gradients with y in upstream"),
    "layout of no dy": ("layouts: {dy: row_slice}", "no gradient of y arrives"),
    "layout of no dresidual_out": (PLAIN + "layouts: {dresidual_out: row_slice}", "residual_out arrives"),
    "a fault": (TRAINS + "scenario: refuse, fault: weight_2d", "remove gradients"),
    "batch": (TRAINS + "scenario: batch", "scenario batch with gradients"),
    "chain": (TRAINS + "scenario: chain", "scenario chain with gradients"),
    "out": (TRAINS + "out: true", "Remove out, or gradients"),
    "inference": (TRAINS + "profiles: [inference, full]", "Write profiles: [training, full]"),
    "smoke": (TRAINS + "profiles: [smoke]", "Write profiles: [training, full]"),
    "core": (TRAINS + "core: true", "Remove core: true"),
    "expanded, rows apart": (PLAIN + "layouts: {dy: expanded}, dy: {row_scales: [1.0, 2.0]}", "tells rows"),
    "expanded, columns apart": ("shape: [3], " + PLAIN + "layouts: {dy: expanded}", "Write dy: {kind: const"),
    "expanded x of rank 1": ("shape: [3], " + PLAIN + "layouts: {x: expanded}", "contiguous for 1 rows"),
    "transposed column": ("shape: [4, 1], " + PLAIN + "layouts: {dy: transposed}", "hidden_size 1"),
    "put outside": (PLAIN + "dy: {put: [[2, 0, 1.0]]}", "dy has 2 rows, so no row 2"),
    "statistic of one row": ("shape: [1, 3], " + TRAINS + "scenario: saved_statistic", "at least 2 rows"),
    "statistic of a square": ("shape: [3, 3], " + TRAINS + "scenario: saved_statistic", "as many as columns"),
    "statistic of one column": ("shape: [3, 1], " + TRAINS + "scenario: saved_statistic", "a wider row"),
    "a case that does not adapt": ("matrix: {gradients: [all, [residual]]}", "exclude mode none there"),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_combinations(tmp_path: Path, name: str) -> None:
    """What no backward could be asked is an error in the file, at the case, with a remedy."""
    keys, words = IMPOSSIBLE[name]
    shape = "" if keys.startswith("shape:") else "shape: [2, 3], "
    with pytest.raises(BadCase) as caught:
        cases(tmp_path, shape + keys)
    found = caught.value
    assert words in f"{found.message} {found.hint}", str(found)
    assert (found.file, found.line, bool(found.hint)) == ("mine.yaml", 4, True)
    assert found.key.startswith("cases[0]")


def test_a_matrix_key_is_where_the_mistake_is(tmp_path: Path) -> None:
    """An impossible list of the matrix is reported at the matrix, not at the case."""
    text = ONE + "    modes: [none]\n    matrix:\n      gradients: [[x], [residual]]\n"
    with pytest.raises(BadCase) as caught:
        load([write(tmp_path, text)])
    assert (caught.value.key, caught.value.line) == ("cases[0].matrix", 9)
    assert "mine/one[none,bf16,grad=r]" in caught.value.message
