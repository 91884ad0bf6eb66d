"""The numbers that the bundled cases really make: in range, so that a failure is the implementation's."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.load import bundled, load
from conformance.model import Case, Run
from conformance.numerics.bits import decode
from conformance.numerics.inputs import make

CASES = load([bundled()])
FP32_MAX = 3.4028235e38


def tensors(run: Run) -> dict[str, np.ndarray]:
    """The float64 values of x, residual and weight, rows flattened."""
    width = run.hidden_size
    made = {}
    for tensor, fill in run.fills.items():
        shape = (width,) if tensor == "weight" else run.shape
        made[tensor] = decode(make(fill, shape, run.dtypes[tensor]), run.dtypes[tensor]).reshape(-1, width)
    return made


def puts_special(run: Run) -> bool:
    """Whether the run puts a NaN or an Inf on purpose."""
    return any(isinstance(value, str) for fill in run.fills.values() for _, _, value in fill.put)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_values_are_in_range(case: Case) -> None:
    """Finite unless it is the point, not all zero unless it is, squares of a row within fp32."""
    for run in case.runs:
        made = tensors(run)
        if puts_special(run) or not run.n_rows:
            continue
        for tensor, values in made.items():
            assert np.isfinite(values).all(), (run.id, tensor)
            assert values.any() or run.fills[tensor].kind == "zeros", (run.id, tensor)
        total = made["x"] + made.get("residual", 0.0)
        assert np.square(total).sum(1).max() < FP32_MAX / 4, run.id


def test_a_sum_overflows_only_where_that_is_asked() -> None:
    """An fp16 sum beyond 65504 rounds to Inf; one case is about that."""
    over = {
        run.case
        for case in CASES
        for run in case.runs
        if run.n_rows and run.dtypes.get("residual") == "float16" and not puts_special(run)
        if np.abs(sum(tensors(run)[t] for t in ("x", "residual"))).max() >= 65520
    }
    assert over == {"magnitudes/fp16_sum_overflows"}


def test_the_residual_matters_and_the_sum_rounds() -> None:
    """A fused case whose sum needs no rounding would hide how the sum is rounded."""
    exact = 0
    fused = [
        run
        for case in CASES
        for run in case.runs
        if run.mode == "residual" and run.dtypes["residual"] != "float32"
        if run.n_rows and not puts_special(run)
    ]
    for run in fused:
        made = tensors(run)
        dtype = run.dtypes["residual"]
        total = made["x"] + made["residual"]
        spacing = 2.0 ** (
            np.floor(np.log2(np.maximum(np.abs(total), 1e-300))) - (7 if dtype == "bfloat16" else 10)
        )
        exact += bool((np.round(total / spacing) * spacing == total).all())
    assert exact <= 0.12 * len(fused)


def test_eps_decides_where_it_should() -> None:
    """Near: mean square and eps within a factor of 20. Far under: eps at least 5 times the mean square."""
    for case in CASES:
        for run in case.runs:
            if case.id not in ("eps/near", "eps/far_under"):
                continue
            made = tensors(run)
            mean_square = np.square(made["x"] + made.get("residual", 0.0)).mean(1)
            ratio = run.eps / mean_square
            if case.id == "eps/near":
                assert ((ratio > 0.05) & (ratio < 20)).all(), run.id
            else:
                assert (ratio > 5).all(), run.id
