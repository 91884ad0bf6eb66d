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


def tensors(run: Run, *wanted: str) -> dict[str, np.ndarray]:
    """The float64 values of the tensors that are supplied, rows flattened; an expanded one is one row."""
    width = run.hidden_size
    made = {}
    for tensor in wanted or run.fills:
        fill = run.fills[tensor]
        one_row = tensor == "weight" or run.layouts.get(tensor) == "expanded"
        one_row |= run.layouts.get(tensor) == "one_element"
        bits = make(fill, (1, width) if one_row else run.shape, run.dtype_of(tensor))
        made[tensor] = decode(bits, run.dtype_of(tensor)).reshape(-1, width)
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
        if np.abs(sum(tensors(run, "x", "residual").values())).max() >= 65520
    }
    assert over == {"magnitudes/fp16_sum_overflows"}


def test_the_residual_matters_and_the_sum_rounds() -> None:
    """A fused case whose sum needs no rounding would hide how the sum is rounded."""
    exact = 0
    fused = [
        run
        for case in CASES
        for run in case.runs
        if run.mode == "residual" and not run.trains and run.dtypes["residual"] != "float32"
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


# --- gradients -----------------------------------------------------------------------------------------

U = 2.0**-24
LARGEST = {"float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.38e38}
ULP = {"float32": 0.0, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_NO_X_HAT = {"zeros", "x for x_hat", "x_hat twice"}
BLIND = {
    "gradients_special/all_zero": _NO_X_HAT,
    "gradients_special/opposite_residual": _NO_X_HAT,
    "gradients_special/no_dy": {*_NO_X_HAT, "no x_hat"},
    "gradients_projection/even_rows": {"x_hat twice", "no x_hat"},
}
"""Wrong dweights that a case cannot show: because x_hat or dy is zeros, or because x_hat is nearly 1."""

OVERFLOWS = {
    "gradients_magnitudes/fp16_dx_overflows": "ds",
    "gradients_magnitudes/fp16_dweight_overflows": "terms",
}
"""What is beyond fp16 because a case is about that."""

TRAINING = [run for case in CASES for run in case.runs if run.trains and run.n_rows and not puts_special(run)]


def backward(run: Run) -> dict[str, np.ndarray]:
    """rrms, x_hat, a = dy * (weight + offset), ds, and the terms of dweight, in float64 from the formula."""
    made = tensors(run)
    total = np.broadcast_to(made["x"], (run.n_rows, run.hidden_size)) + made.get("residual", 0.0)
    rrms = 1.0 / np.sqrt(np.square(total).mean(1, keepdims=True) + (1e-6 if run.eps is None else run.eps))
    x_hat = total * rrms
    weight = made.get("weight", np.ones((1, run.hidden_size))) + (run.weight_offset or 0.0)
    dy = np.broadcast_to(made.get("dy", np.zeros((1, 1))), total.shape)
    a = dy * weight
    ds = rrms * (a - x_hat * (x_hat * a).mean(1, keepdims=True)) + made.get("dresidual_out", 0.0)
    return {"rrms": rrms, "x_hat": x_hat, "total": total, "dy": dy, "a": a, "ds": ds, "terms": dy * x_hat}


@pytest.mark.parametrize("case", sorted({run.case for run in TRAINING}))
def test_gradients_are_in_range_and_decidable(case: str) -> None:
    """Finite in 16 bits, rows not of unit size, and a wrong dweight outside of what is allowed.

    The third power of the rrms, which the derivative of rsqrt has, is normal in fp32.
    """
    for run in (run for run in TRAINING if run.case == case):
        found = backward(run)
        limit = 0.9 * LARGEST[run.dtypes["x"]]
        over = OVERFLOWS.get(case)
        assert (np.abs(found["ds"]).max() < limit) == (over != "ds"), run.id
        assert np.abs(found["a"]).max() < limit, run.id
        assert 4e-11 < found["rrms"].min() <= found["rrms"].max() < 2e10, run.id
        assert (np.abs(np.log(found["rrms"])) > 0.2).any(), run.id
        if "weight" in run.dtypes:
            sums = np.abs(found["terms"].sum(0)).max()
            assert (sums < 0.9 * LARGEST[run.dtypes["weight"]]) == (over != "terms"), run.id
        if "weight" in run.gradients and "y" in run.upstream:
            blind = {name for name, share in wrong_and_seen(run, found).items() if share < 0.6}
            assert blind <= BLIND.get(case, set()), run.id


def wrong_and_seen(run: Run, found: dict[str, np.ndarray]) -> dict[str, float]:
    """For each wrong dweight the share of columns in which it lies outside twice the interval."""
    right, sizes = found["terms"].sum(0), np.abs(found["terms"]).sum(0)
    relative = 4.0 * np.sqrt(run.hidden_size) + 8.0 + 8.0 * np.sqrt(run.n_rows) + 1.0
    allowed = relative * U * sizes + ULP[run.dtypes["weight"]] * np.abs(right)
    wrongs = {
        "zeros": np.zeros_like(right),
        "x for x_hat": (found["dy"] * found["total"]).sum(0),
        "x_hat twice": (found["terms"] * found["x_hat"]).sum(0),
        "no x_hat": found["dy"].sum(0),
    }
    return {name: float((np.abs(right - wrong) > 2.0 * allowed).mean()) for name, wrong in wrongs.items()}


def test_nearly_every_training_run_asks_for_dweight() -> None:
    """Where it does not, that is the point."""
    asked = [run for run in TRAINING if "weight" in run.gradients and "y" in run.upstream]
    assert len(asked) > 0.9 * len(TRAINING)
    widest = [run for run in asked if run.hidden_size == 40999]
    tallest = [run for run in asked if run.n_rows == 65537]
    assert (len(widest), len(tallest)) == (4, 2)
