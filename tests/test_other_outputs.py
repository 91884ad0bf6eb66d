"""residual_out, rrms and the base grade at their edges; what a finding says of an element."""

from __future__ import annotations

import math

import pytest
import torch
from emulation import Kernel, problem, tensor
from representable import DTYPES, changed, special, step

from conformance.model import Fill
from conformance.numerics.accuracy import (
    Problem,
    base_grade,
    bound,
    conventions,
    explain,
    residual_exact,
    rrms_ok,
)
from conformance.numerics.oracle import reciprocal_rms
from conformance.numerics.rounding import nearest, truncated

SHAPE = (5, 129)


# --- residual_out and rrms ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("out", DTYPES)
def test_residual_out_is_exact_to_the_bit(dtype: str, out: str) -> None:
    p = problem(SHAPE, Fill(seed=1), dtype, fused=True, residual_dtype=out)
    assert p.residual is not None
    right = nearest(p.x + p.residual, out)
    verdict = residual_exact(p, right, out)
    assert verdict.exact
    assert verdict.compared == right.numel()
    assert verdict.wrong == ()
    for direction in (-1, 1):
        y = changed(right, 4, 128, float(step(right, out, direction)[4, 128]))
        verdict = residual_exact(p, y, out)
        assert (verdict.status, verdict.count) == ("wrong", 1)
        assert verdict.wrong[0].index == (4, 128)
        assert verdict.wrong[0].expected == right[4, 128]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_residual_out_truncated_everywhere_has_its_name(dtype: str) -> None:
    p = problem(SHAPE, Fill(seed=1), dtype, fused=True)
    assert p.residual is not None
    cut, right = truncated(p.x + p.residual, dtype), nearest(p.x + p.residual, dtype)
    verdict = residual_exact(p, cut, dtype)
    assert verdict.status == "truncated"
    assert verdict.count == int((cut != right).sum())
    mixed = cut.clone()
    mixed[:2] = right[:2]
    assert residual_exact(p, mixed, dtype).status == "wrong"


def test_residual_out_special_values() -> None:
    x = torch.tensor([[math.nan, math.inf, math.inf, 2.0**-130, 1.0]], dtype=torch.float64)
    residual = torch.tensor([[1.0, 1.0, -math.inf, 2.0**-125, 2.0]], dtype=torch.float64)
    p = Problem(x, residual, None, 1e-6, 0.0, "float32", "float32", "", "float32")
    right = torch.tensor([[math.nan, math.inf, math.nan, 2.0**-130 + 2.0**-125, 3.0]], dtype=torch.float64)
    assert residual_exact(p, right, "float32").exact
    assert residual_exact(p, changed(right, 0, 3, 2.0**-125), "float32").exact  # x was flushed
    for column, value in ((0, 1.0), (1, math.nan), (2, math.inf), (3, 0.0), (4, math.nan)):
        assert not residual_exact(p, changed(right, 0, column, value), "float32").exact


@pytest.mark.parametrize("fused", [False, True])
def test_rrms_at_the_edges_of_its_bound(fused: bool) -> None:
    p = problem(SHAPE, Fill(seed=1), "bfloat16", fused=fused)
    source = p.x if p.residual is None else p.x + p.residual
    right = reciprocal_rms(source, p.eps)[:, 0]
    allowed = bound(SHAPE[1]) + (2.0**-24 if fused else 0.0)
    for sign in (-1, 1):
        edge = nearest(right * (1 + sign * allowed), "float32")
        assert rrms_ok(p, edge).ok
        assert rrms_ok(p, edge).compared == SHAPE[0]
        beyond = edge.clone()
        beyond[3] = step(edge, "float32", sign)[3]
        verdict = rrms_ok(p, beyond)
        assert not verdict.ok
        assert verdict.count == 1
        assert verdict.wrong[0].index == (3,)
    assert not rrms_ok(p, 1.0 / right).ok


def test_rrms_special_rows() -> None:
    p = special("float32", (0, 0, "nan"), (1, 0, "inf"), (2, 0, 1e30))
    right = reciprocal_rms(p.x, p.eps)[:, 0]
    for row, good, bad in (
        (0, [math.nan], [0.0]),
        (1, [0.0, math.nan], [1.0]),
        (2, [0.0, 5.0, math.nan], []),
    ):
        for value in good + bad:
            rrms = nearest(right, "float32")
            rrms[row] = value
            assert rrms_ok(p, rrms).ok is (value in good or (math.isnan(value) and math.nan in good))


# --- base grade -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-3), ("bfloat16", 1e-2), ("float32", 1e-5)])
def test_base_grade_at_its_tolerance(dtype: str, tolerance: float) -> None:
    p = problem(SHAPE, Fill(seed=1), dtype, fused=False)
    expected = p.x * reciprocal_rms(p.x, p.eps) * p.weight
    edge = expected + (tolerance + tolerance * expected.abs()) * 0.999
    verdict = base_grade(p, edge)
    assert verdict.ok
    assert verdict.compared == edge.numel()
    verdict = base_grade(p, changed(edge, 1, 2, float(edge[1, 2]) + 0.002 * tolerance * 2))
    assert not verdict.ok
    assert verdict.count == 1
    assert verdict.wrong[0].index == (1, 2)
    for value in (math.nan, math.inf, -math.inf):
        assert not base_grade(p, changed(expected, 1, 2, value)).ok


def test_base_grade_special_rows() -> None:
    p = special("float32", (0, 0, "nan"), (1, 0, "inf"), (2, 0, 1e30))
    y = Kernel(conventions(False)[0])(p)
    assert base_grade(p, y).ok
    assert base_grade(p, y).compared == 3 * 33
    assert not base_grade(p, changed(y, 0, 1, 0.0)).ok
    assert not base_grade(p, changed(y, 1, 1, 1.0)).ok
    assert base_grade(p, changed(y, 2, 1, 5.0)).ok
    assert not base_grade(p, changed(y, 3, 1, math.nan)).ok


def test_where_is_strict_json() -> None:
    p = special("float32")
    y = changed(Kernel(conventions(False)[0])(p), 0, 0, math.nan)
    where = explain(p, y).wrong[0].where()
    assert where["tensor"] == "y"
    assert where["index"] == [0, 0]
    assert where["actual"] == "nan"
    assert isinstance(where["expected"], float)


def test_tensor_helper_is_the_fill() -> None:
    assert tensor(Fill(kind="constant", scale=2.0), (2, 2), "float16").tolist() == [[2.0, 2.0]] * 2
