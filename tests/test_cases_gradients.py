"""The bundled training cases: what must be asked of a backward is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.load import bundled, load, requirements
from conformance.loading.gradients import TRAINING_SCENARIOS
from conformance.model import DTYPES, LAYOUTS, UPSTREAM_OF, Run
from conformance.numerics.bits import decode
from conformance.numerics.inputs import make

CASES = [case for case in load([bundled()]) if any(run.trains for run in case.runs)]
RUNS = [run for case in CASES for run in case.runs]
MODES = ("none", "residual")

BACKWARD = {id_ for id_, rule in requirements().items() if 130 <= rule.rank < 200}


def asked(**wanted: Any) -> list[Run]:
    """The training runs whose fields have these values."""
    return [run for run in RUNS if all(getattr(run, key) == value for key, value in wanted.items())]


def test_training_cases_are_files_of_their_own() -> None:
    """A file whose name says so holds them, and nothing else; each case trains in all its runs."""
    assert {case.file.startswith("gradients_") for case in CASES} == {True}
    assert all(run.trains and run.profiles == ("training", "full") for run in RUNS)
    assert not any(run.core for run in RUNS)


@pytest.mark.parametrize("mode", MODES)
def test_sizes(mode: str) -> None:
    """Widths from 1 to 40999; no row, one row, and more rows than any counter of 16 bits holds."""
    runs = asked(mode=mode, layouts={})
    assert {run.hidden_size for run in runs} >= {1, 2, 7, 33, 257, 1000, 4097, 8192, 16384, 40999}
    assert {run.n_rows for run in runs} >= {0, 1, 2, 3, 15, 17, 33, 200, 257, 1025, 32769, 65537}
    assert {len(run.shape) for run in runs} == {1, 2, 3, 4}
    for width in (1, 2, 7, 33, 257, 1000):
        assert len({run.dtypes["x"] for run in runs if run.hidden_size == width}) >= 2
    assert all(run.hidden_size <= 64 for run in runs if run.n_rows > 4096)
    assert {(run.n_rows, run.dtypes["x"]) for run in runs if run.hidden_size == 40999} == {
        (5, "bfloat16"), (200, "float16"),
    }  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_neutral_runs(mode: str) -> None:
    """The runs that the core of the forward has, asked of the backward."""
    neutral = {(run.dtypes["x"], *run.shape) for run in asked(mode=mode, case="gradients_neutral/norm")}
    assert neutral == {
        (dtype, rows, width)
        for dtype in ("float16", "bfloat16")
        for rows in (1, 64)
        for width in (4096, 4097, 8192)
    }


def test_every_combination_of_requires_grad() -> None:
    """3 of the plain norm, 7 of the fused add, beside a weight; without one, all that is there."""
    runs = [run for run in RUNS if "weight" in run.dtypes]
    plain = {run.gradients for run in runs if run.mode == "none"}
    assert plain == {("x",), ("weight",), ("x", "weight")}
    fused = {run.gradients for run in runs if run.mode == "residual"}
    assert fused == {
        ("x",), ("residual",), ("weight",), ("x", "residual"), ("x", "weight"), ("residual", "weight"),
        ("x", "residual", "weight"),
    }  # fmt: skip
    assert {run.mode for run in RUNS if "weight" not in run.dtypes} == set(MODES)


def test_the_gradients_that_arrive() -> None:
    """Both, and each alone: for every combination of what is wanted that depends on it, and every dtype."""
    fused = asked(mode="residual")
    assert {run.upstream for run in fused} == {("y",), ("residual_out",), ("y", "residual_out")}
    for alone in (("y",), ("residual_out",)):
        runs = [run for run in fused if run.upstream == alone]
        assert {("x",), ("residual",), ("x", "residual", "weight")} <= {run.gradients for run in runs}
        assert {run.dtypes["x"] for run in runs} == set(DTYPES)
    assert {run.upstream for run in asked(mode="none")} == {("y",)}


@pytest.mark.parametrize(
    ("tensor", "modes"), [("dy", MODES), ("dresidual_out", ("residual",))], ids=UPSTREAM_OF.values()
)
def test_layouts_of_what_arrives(tensor: str, modes: tuple[str, ...]) -> None:
    """Every layout, in every mode; dy also as one element for all columns."""
    for mode in modes:
        assert {run.layouts.get(tensor, "contiguous") for run in asked(mode=mode)} == set(LAYOUTS)
    assert any(run.layouts.get("dy") == "expanded" and len(run.shape) == 1 for run in RUNS)


def test_layouts_of_inputs() -> None:
    """x, residual and weight, which the backward reads a second time."""
    asked_of = {(tensor, layout) for run in RUNS for tensor, layout in run.layouts.items()}
    rows = {"row_slice", "column_offset", "odd_base", "transposed"}
    assert asked_of >= {("x", layout) for layout in (*rows, "column_step", "split_heads")}
    assert asked_of >= {("residual", layout) for layout in rows}
    assert asked_of >= {("weight", "column_step"), ("weight", "odd_base")}


@pytest.mark.parametrize("mode", MODES)
def test_scenarios(mode: str) -> None:
    """Each scenario that a training run can have; the statistic in every dtype and rank 2 and 3."""
    assert {run.scenario for run in asked(mode=mode)} == set(TRAINING_SCENARIOS)
    statistic = asked(mode=mode, scenario="saved_statistic")
    assert {run.dtypes["x"] for run in statistic} == set(DTYPES)
    assert {len(run.shape) for run in statistic} == {2, 3}
    assert max(run.n_rows for run in asked(mode=mode, scenario="repeat")) >= 4096


@pytest.mark.parametrize("mode", MODES)
def test_values(mode: str) -> None:
    """eps, offsets, mixed dtypes, special values of x and of what arrives."""
    runs = asked(mode=mode)
    assert {run.eps for run in runs} >= {1e-3, 1e-5, 1e-6}
    assert {run.weight_offset for run in runs} == {None, 1.0}
    mixes = {tuple(sorted(run.dtypes.items())) for run in runs if len(set(run.dtypes.values())) > 1}
    assert len(mixes) >= 5
    put = {tensor for run in runs for tensor, fill in run.fills.items() if "nan" in {p[2] for p in fill.put}}
    assert put >= {"x", "dy"}
    put = {t for run in runs for t, fill in run.fills.items() if {"inf", "-inf"} <= {p[2] for p in fill.put}}
    assert "dy" in put
    assert {run.dtypes["x"] for run in runs if run.eps is None} >= {"float32", "bfloat16"}
    assert any(run.fills["weight"].zero_every for run in runs if "weight" in run.fills)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_beyond_fp16(mode: str) -> None:
    """Some elements of dx, some columns of dweight, are beyond 65504, and the others within."""
    for case, name in (("fp16_dx_overflows", "dx"), ("fp16_dweight_overflows", "dweight")):
        (run,) = asked(mode=mode, case=f"gradients_magnitudes/{case}")
        made = {
            tensor: decode(make(fill, shape, "float16"), "float16")
            for tensor, fill in run.fills.items()
            for shape in [run.shape[-1:] if tensor == "weight" else run.shape]
        }
        h = made["x"] + made.get("residual", 0.0)
        rrms = 1.0 / np.sqrt(np.square(h).mean(1, keepdims=True) + run.eps)
        a, x_hat = made["dy"] * made["weight"], h * rrms
        dx = rrms * (a - x_hat * (a * x_hat).mean(1, keepdims=True)) + made.get("dresidual_out", 0.0)
        beyond = {"dx": np.abs(dx) > 65536, "dweight": np.abs((made["dy"] * x_hat).sum(0)) > 65536}
        share = beyond.pop(name).mean()
        assert 0.05 < share < 0.6, share
        assert not any(other.any() for other in beyond.values())


def test_seeds_of_what_arrives_are_its_own() -> None:
    """dy is independent of x, residual and weight, but where it is meant to lie along x."""
    alike = set()
    for run in RUNS:
        others = {fill.seed for tensor, fill in run.fills.items() if tensor in run.dtypes}
        arriving = [run.fills[tensor].seed for tensor in UPSTREAM_OF.values() if tensor in run.fills]
        assert len(set(arriving)) == len(arriving) == len(run.upstream), run.id
        if others & set(arriving):
            alike.add(run.case)
    assert alike == {"gradients_projection/along"}


def test_every_requirement_of_the_backward_is_what_some_case_was_written_for() -> None:
    """Named first, in a case whose inputs make it visible, or in the neutral runs that ask everything."""
    first = {run.requirements[0] for run in RUNS}
    neutral = {id_ for run in RUNS if run.case == "gradients_neutral/norm" for id_ in run.requirements}
    assert first | neutral >= BACKWARD
    secondary = {"GRADMODE-ALIKE", "DRESIDUAL-ACCURACY", "DWEIGHT-ACCURACY"}
    assert BACKWARD - first <= secondary


def test_training_is_affordable() -> None:
    """On two cores with Triton's interpreter, which takes a millisecond for a row or a block of rows."""
    for mode in MODES:
        runs = asked(mode=mode)
        assert len(runs) <= 260
        assert sum(run.cost for run in runs) < 45e6
        assert sum(run.cost // run.hidden_size for run in runs if run.hidden_size > 64) < 16_000
        assert sum(run.n_rows > 4096 for run in runs) <= 6
    wide = [run for run in RUNS if run.hidden_size > 16384]
    assert len(wide) == 4
