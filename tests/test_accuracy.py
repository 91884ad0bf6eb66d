"""The interval rule at its edges: for every output, dtype and convention the last value inside passes, the
next fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from emulation import Kernel, problem
from representable import DTYPES, changed, special, step

from conformance.model import Fill
from conformance.numerics.accuracy import (
    Problem,
    base_grade,
    belongs,
    bound,
    conventions,
    explain,
    interval,
    residual_exact,
)
from conformance.numerics.bits import decode, encode
from conformance.numerics.conventions import Convention, candidates_for, convention_named, row_chunks
from conformance.numerics.rounding import nearest, store, truncated, ulp

SHAPE = (5, 129)


def every_problem() -> list[tuple[str, Problem, Convention]]:
    """Dtypes x conventions, with an offset and with mixed dtypes too."""
    found = []
    variants: list[tuple[str, dict[str, str], float]] = [(d, {}, 0.0) for d in DTYPES]
    variants += [(d, {}, 1.0) for d in DTYPES]
    variants += [
        ("bfloat16", {"weight_dtype": "float32"}, 0.0),
        ("bfloat16", {"weight_dtype": "float32", "y_dtype": "float32"}, 0.0),
        ("float16", {"residual_dtype": "float32"}, 0.0),
        ("float32", {"weight_dtype": "bfloat16"}, 0.0),
    ]
    for dtype, dtypes, offset in variants:
        for fused in (False, True):
            if "residual_dtype" in dtypes and not fused:
                continue
            p = problem(SHAPE, Fill(seed=1), dtype, fused=fused, offset=offset, **dtypes)
            label = f"{dtype} {dtypes or ''} {offset:g}"
            found += [(f"{label} {c.name}", p, c) for c in candidates_for(p)]
    return found


EVERY = every_problem()


@pytest.mark.parametrize(("p", "convention"), [c[1:] for c in EVERY], ids=[c[0] for c in EVERY])
def test_the_ends_of_the_interval_pass_and_the_next_values_fail(p: Problem, convention: Convention) -> None:
    low, high = interval(p, convention)
    for edge, outward in ((low, -1), (high, 1)):
        found = explain(p, edge)
        assert convention.name in found.conventions, found.worst
        assert found.worst is None
        assert found.compared == edge.numel()
        beyond = step(edge, p.y_dtype, outward)
        for row, column in ((0, 0), (2, 77), (SHAPE[0] - 1, SHAPE[1] - 1)):
            y = changed(edge, row, column, float(beyond[row, column]))
            assert not belongs(p, y, convention)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_outside_every_convention_is_the_finding(dtype: str, fused: bool) -> None:
    p = problem(SHAPE, Fill(seed=1), dtype, fused=fused)
    right = Kernel(candidates_for(p)[0])(p)
    highest = torch.stack([interval(p, c)[1] for c in candidates_for(p)]).amax(0)
    y = changed(right, 3, 100, float(step(highest, dtype, 1)[3, 100]))
    found = explain(p, y)
    assert not found.explained
    assert found.conventions == ()
    assert found.worst is not None
    assert found.worst.count == 1
    assert found.worst.ulps > 0.4
    (wrong,) = found.wrong
    assert wrong == found.worst.element
    assert wrong.index == (3, 100)
    assert wrong.actual == y[3, 100]
    assert wrong.low <= wrong.expected <= wrong.high < wrong.actual


def test_elements_of_two_conventions_do_not_mix() -> None:
    p = problem(SHAPE, Fill(seed=1), "bfloat16", fused=True)
    tensors = [Kernel(c)(p) for c in conventions(True) if not c.truncating]
    assert all(explain(p, y).explained for y in tensors)
    patched = tensors[0].clone()
    patched[1:] = tensors[3][1:]
    assert not explain(p, patched).explained


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("fused", [False, True])
def test_truncation_is_named_only_where_nothing_else_explains(dtype: str, fused: bool) -> None:
    p = problem(SHAPE, Fill(seed=1), dtype, fused=fused)
    for convention in conventions(fused):
        found = explain(p, Kernel(convention)(p))
        assert found.conventions == (convention.name,)
        assert found.truncating is convention.truncating


def test_an_fp32_tensor_has_no_truncating_convention() -> None:
    p = problem(SHAPE, Fill(seed=1), "float32", fused=True)
    assert not any(c.truncating for c in candidates_for(p))


@pytest.mark.parametrize("fused", [False, True])
def test_a_promoted_output_rounds_x_hat_to_the_dtype_of_x(fused: bool) -> None:
    p = problem(SHAPE, Fill(seed=1), "bfloat16", fused=fused, weight_dtype="float32", y_dtype="float32")
    for convention in conventions(fused):
        if not convention.truncating:
            assert explain(p, Kernel(convention)(p)).conventions == (convention.name,)


def test_no_weight_and_one_column() -> None:
    for shape in ((4, 1), (4, 33)):
        plain = problem(shape, Fill(seed=1), "bfloat16", fused=False)
        p = Problem(plain.x, None, None, 1e-6, 0.0, "bfloat16", "", "", "bfloat16")
        assert explain(p, Kernel(conventions(False)[0])(p)).conventions == ("one rounding", "two roundings")


def test_the_bound() -> None:
    assert bound(4096) == 264 * 2.0**-24
    assert bound(1) == 12 * 2.0**-24


def test_zero_elements_never_explain() -> None:
    p = Problem(torch.zeros(0, 7, dtype=torch.float64), None, None, 1e-6, 0.0, "float16", "", "", "float16")
    found = explain(p, torch.zeros(0, 7, dtype=torch.float64))
    assert found.compared == 0
    assert not found.explained
    assert found.conventions == ()
    assert not base_grade(p, torch.zeros(0, 7, dtype=torch.float64)).ok


def test_rows_are_judged_in_chunks_that_cover_each_once() -> None:
    p = Problem(
        torch.zeros(1000, 300, dtype=torch.float64), None, None, 1e-6, 0.0, "float16", "", "", "float16"
    )
    rows = [row for start, stop in row_chunks(p) for row in range(start, stop)]
    assert rows == list(range(1000))
    assert not explain(p, changed(p.x, 999, 299, 1.0)).explained


def test_refusals() -> None:
    p = problem((2, 3), Fill(), "float16", fused=False)
    with pytest.raises(ValueError, match="should be a float64 copy of shape"):
        explain(p, torch.zeros(2, 4, dtype=torch.float64))
    with pytest.raises(ValueError, match="should be a float64 copy"):
        Problem(p.x.float(), None, None, 1e-6, 0.0, "float16", "", "", "float16")
    with pytest.raises(ValueError, match=r"should be \(3,\)"):
        Problem(p.x, None, p.x, 1e-6, 0.0, "float16", "", "float16", "float16")
    with pytest.raises(ValueError, match="no residual"):
        residual_exact(p, p.x, "float16")
    with pytest.raises(ValueError, match="should be a name like"):
        convention_named("three roundings")


# --- the two roundings, on torch tensors ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_nearest_is_the_encoder(dtype: str) -> None:
    raw = np.random.Philox(key=11).random_raw(50_000)
    single = decode(raw.astype(np.uint32), "float32")
    values = np.concatenate([single[np.isfinite(single)], [0.0, -0.0, 65519.9, 65520.0, np.inf, -np.inf]])
    through = decode(encode(values, "float32"), "float32")
    expected = decode(encode(through, dtype), dtype)
    assert np.array_equal(nearest(torch.from_numpy(values), dtype).numpy(), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_truncated_is_the_largest_value_not_beyond(dtype: str) -> None:
    raw = np.random.Philox(key=12).random_raw(50_000).astype(np.uint32)
    values = torch.from_numpy(decode(raw, "float32"))
    values = values[values.isfinite()]
    got = truncated(values, dtype)
    assert got.isfinite().all()
    assert (got.abs() <= values.abs()).all()
    outward = step(got, dtype, 1).where(values > 0, step(got, dtype, -1))
    assert (outward.abs() > values.abs()).all()
    special = torch.tensor([math.nan, math.inf, -math.inf, 0.0], dtype=torch.float64)
    assert torch.equal(truncated(special, dtype).nan_to_num(7.0), special.nan_to_num(7.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_ulp_is_the_distance_to_the_next_value(dtype: str) -> None:
    values = torch.tensor([1.0, 1.5, 3.0, 1e-3, 1e-7, 0.0], dtype=torch.float64)
    stored = nearest(values, dtype)
    assert torch.equal(ulp(stored, dtype), step(stored, dtype, 1) - stored)


# --- special values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_makes_its_row_nan_and_no_other(dtype: str) -> None:
    p = special(dtype, (1, 5, "nan"))
    y = Kernel(conventions(False)[0])(p)
    assert y[1].isnan().all()
    assert explain(p, y).explained
    for row, column, value in ((1, 5, 0.0), (1, 6, 1.0), (2, 5, math.nan), (2, 5, math.inf)):
        found = explain(p, changed(y, row, column, value))
        assert not found.explained
        assert found.wrong[0].index == (row, column)
        assert found.worst is not None
        assert found.worst.ulps == math.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_inf_is_nan_at_its_place_and_zero_or_nan_beside(dtype: str) -> None:
    p = special(dtype, (1, 5, "-inf"))
    y = Kernel(conventions(False)[0])(p)
    assert y[1, 5].isnan()
    assert (y[1, :5] == 0).all()
    zeros = explain(p, y)
    assert zeros.explained
    assert zeros.notes == ("1 rows with an Inf: elements beside it came out 0",)
    y[1] = math.nan
    nans = explain(p, y)
    assert nans.explained
    assert nans.notes == ("1 rows with an Inf: elements beside it came out NaN",)
    for row, column, value in ((1, 5, 0.0), (1, 6, 1.0), (1, 6, math.inf), (0, 0, math.nan)):
        assert not explain(p, changed(y, row, column, value)).explained


def test_a_sum_beyond_fp16_is_judged_under_the_convention_tried() -> None:
    plain = problem((4, 33), Fill(seed=1), "float16", fused=True)
    assert plain.residual is not None
    x, residual = plain.x.clone(), plain.residual.clone()
    x[1, 5], residual[1, 5] = 60000.0, 60000.0
    p = Problem(x, residual, plain.weight, 1e-6, 0.0, "float16", "float16", "float16", "float16")
    exact, rounded, mixed = (Kernel(c)(p) for c in conventions(True)[:3])
    assert exact.isfinite().all()
    assert rounded[1, 5].isnan()
    assert mixed[1, 5].isinf()
    for y, name in ((exact, "exact sum"), (rounded, "rounded sum"), (mixed, "mixed")):
        assert explain(p, y).conventions == (f"one rounding, {name}",)
    assert not explain(p, changed(exact, 1, 5, math.inf)).explained
    assert residual_exact(p, store(x + residual, "float16").double(), "float16").exact
    assert not residual_exact(p, changed(x + residual, 1, 5, 65504.0), "float16").exact


def test_overflow_of_y_itself_is_inf() -> None:
    plain = special("float16")
    p = Problem(plain.x, None, plain.weight * 60000.0, 1e-6, 0.0, "float16", "", "float32", "float16")
    y = Kernel(conventions(False)[0])(p)
    row, column = (int(i) for i in y.isinf().nonzero()[0])
    assert explain(p, y).explained
    assert not explain(p, changed(y, row, column, float(y[row, column].sign()) * 65504.0)).explained
    assert not explain(p, changed(y, row, column, -float(y[row, column]))).explained
    assert base_grade(p, y).ok


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_mean_square_beyond_fp32_is_recorded_not_failed(dtype: str) -> None:
    p = special(dtype, (1, 5, 1e20))
    y = Kernel(conventions(False)[0])(p)
    for value in (0.0, 3.0, math.nan):
        y[1] = value
        found = explain(p, y)
        assert found.explained
        assert found.compared == 3 * 33
        assert found.notes == ("1 rows not judged: their mean square is beyond what fp32 can hold",)
    assert not explain(p, changed(y, 2, 0, 9.0)).explained


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-8, 1e-19, 1e-25, 1e-38])
def test_tiny_rows_are_judged_although_their_squares_vanish(dtype: str, scale: float) -> None:
    p = special(dtype, scale=scale)
    y = Kernel(conventions(False)[0])(p)
    assert explain(p, y).conventions[0] == "one rounding"
    if y.abs().max() > 0 and scale > 1e-30:
        assert not explain(p, y * 1.5).explained
        assert not explain(p, torch.zeros_like(y)).explained


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_subnormal_inputs_and_results_may_be_flushed(dtype: str) -> None:
    p = special(
        dtype, scale=1e-38
    )  # 1000 times larger after the norm, and normal: only the input was flushed
    smallest = 2.0**-126
    flushed = Problem(
        p.x.where(p.x.abs() >= smallest, 0.0), None, p.weight, p.eps, 0.0, dtype, "", dtype, dtype
    )
    y = Kernel(conventions(False)[0])(flushed)
    assert explain(p, y).explained
    assert not torch.equal(y, Kernel(conventions(False)[0])(p))
    large = int(p.x[0].abs().argmax())
    assert not explain(p, changed(y, 0, large, 0.0)).explained
    p = special(dtype, scale=1e-38, eps=1.0)
    y = Kernel(conventions(False)[0])(p)
    assert explain(p, y.where(y.abs() >= smallest, 0.0)).explained
    assert not explain(p, y.where(y.abs() >= smallest, smallest)).explained


def test_fp16_subnormals_are_not_flushed() -> None:
    p = special("float16", scale=1e-6)
    y = Kernel(conventions(False)[0])(p)
    smallest = 2.0**-14
    assert (y.abs() > 0).logical_and(y.abs() < smallest).any()
    assert not explain(p, y.where(y.abs() >= smallest, 0.0)).explained


def test_a_zero_row_is_zero() -> None:
    p = problem((3, 33), Fill(zero_rows=(1,)), "bfloat16", fused=False)
    y = Kernel(conventions(False)[0])(p)
    assert (y[1] == 0).all()
    assert explain(p, y).explained
    assert not explain(p, changed(y, 1, 0, math.nan)).explained
