"""Kinds before numbers, what fp32 cannot hold, and gradients that do not arrive."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from gradient_emulation import Dweight, Dx, gradient_problem
from representable import DTYPES, changed

from conformance.model import Fill
from conformance.numerics.gradients import (
    DweightConvention,
    DxConvention,
    GradientProblem,
    explain_dweight,
    explain_dx,
    gradients,
)
from conformance.numerics.rounding import nearest

PLAIN = Dx(DxConvention(False))
TERMS = Dweight(DweightConvention(False, False))


def special(
    dtype: str, *put: tuple[int, int, float | str], scale: float = 1.0, eps: float = 1e-6
) -> GradientProblem:
    return gradient_problem((4, 33), Fill(seed=1, scale=scale, put=put), dtype, fused=False, eps=eps)


def with_dy(p: GradientProblem, row: int, column: int, value: float) -> GradientProblem:
    assert p.dy is not None
    return replace(p, dy=changed(p.dy, row, column, value))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("where", ["x", "dy"])
def test_a_nan_makes_its_row_of_dx_nan_and_no_other(dtype: str, where: str) -> None:
    p = special(dtype, (1, 5, "nan")) if where == "x" else with_dy(special(dtype), 1, 5, math.nan)
    dx = PLAIN(p)
    assert dx[1].isnan().all()
    assert dx[[0, 2, 3]].isfinite().all()
    assert explain_dx(p, dx).explained
    for row, column, value in ((1, 5, 0.0), (1, 6, 1.0), (2, 5, math.nan), (2, 5, math.inf)):
        found = explain_dx(p, changed(dx, row, column, value))
        assert not found.explained
        assert found.wrong[0].index == (row, column)
        assert found.worst is not None
        assert found.worst.ulps == math.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_reaches_the_columns_of_dweight_whose_terms_hold_it(dtype: str) -> None:
    p = with_dy(special(dtype), 1, 5, math.nan)
    dweight = TERMS(p)
    assert dweight.isnan().nonzero().tolist() == [[5]]
    assert explain_dweight(p, dweight).explained
    for column, value in ((5, 0.0), (6, math.nan), (6, math.inf)):
        wrong = dweight.clone()
        wrong[column] = value
        assert [w.index for w in explain_dweight(p, wrong).wrong] == [(column,)]
    p = special(dtype, (1, 5, "nan"))
    assert TERMS(p).isnan().all()
    assert explain_dweight(p, TERMS(p)).explained
    assert not explain_dweight(p, torch.zeros(33, dtype=torch.float64)).explained


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_inf_of_x_makes_its_row_of_dx_nan_and_its_column_of_dweight(dtype: str) -> None:
    p = special(dtype, (1, 5, "-inf"))
    dx, dweight = PLAIN(p), TERMS(p)
    assert dx[1].isnan().all()
    assert dweight.isnan().nonzero().tolist() == [[5]]
    found = explain_dx(p, dx)
    assert found.explained
    assert found.notes == ("1 rows with an Inf: NaN was accepted beside it",)
    assert not explain_dx(p, changed(dx, 1, 6, 0.0)).explained
    assert not explain_dx(p, changed(dx, 2, 6, math.nan)).explained
    assert explain_dweight(p, dweight).explained
    nans = dweight * math.nan
    assert explain_dweight(p, nans).explained
    assert not explain_dweight(p, torch.nan_to_num(dweight)).explained
    assert not explain_dweight(p, torch.where(dweight.isnan(), dweight, dweight + 1.0)).explained


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_inf_of_dy_is_inf_beside_and_nan_at_its_place(dtype: str) -> None:
    p = with_dy(special(dtype), 1, 5, math.inf)
    dx, dweight = PLAIN(p), TERMS(p)
    assert dx[1, 5].isnan()
    assert dx[1, 6].isinf()
    assert explain_dx(p, dx).explained
    assert explain_dx(p, changed(dx, 1, 6, math.nan)).explained
    for value in (0.0, -float(dx[1, 6])):
        assert not explain_dx(p, changed(dx, 1, 6, value)).explained
    assert dweight.isinf().nonzero().tolist() == [[5]]
    assert explain_dweight(p, dweight).explained
    assert not explain_dweight(p, -dweight).explained


def test_what_overflows_fp16_is_judged_under_the_convention_tried() -> None:
    plain = special("float16")
    assert plain.forward.weight is not None
    weight = plain.forward.weight.clone()
    weight[5] = 2.0
    p = with_dy(replace(plain, forward=replace(plain.forward, weight=weight)), 1, 5, 40000.0)
    exact, stored = PLAIN(p), Dx(DxConvention(True))(p)
    assert exact[1, 6].isfinite()
    assert not stored[1].isfinite().any()
    assert explain_dx(p, exact).conventions == ("a in fp32",)
    assert explain_dx(p, stored).conventions == ("a rounded",)
    assert exact[1, 5].isinf()  # 80000 times an rrms near 1
    assert not explain_dx(p, changed(exact, 1, 5, 65504.0)).explained


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_mean_square_beyond_fp32_is_recorded_not_failed(dtype: str) -> None:
    p = special(dtype, (1, 5, 1e20))
    dx = PLAIN(p)
    for value in (0.0, 3.0, math.nan):
        dx[1] = value
        found = explain_dx(p, dx)
        assert found.explained
        assert found.compared == 3 * 33
        assert found.notes == ("1 rows not judged: fp32 cannot hold what their gradient needs on the way",)
    assert not explain_dx(p, changed(dx, 2, 0, 9.0)).explained
    # In dweight the row counts fully, not at all, or makes NaN.
    others = gradients(p.rows(0, 1))[1] + gradients(p.rows(2, 4))[1]
    whole, without = nearest(gradients(p)[1], dtype), nearest(others, dtype)
    for right in (whole, without, whole * math.nan):
        assert explain_dweight(p, right).explained
    assert not explain_dweight(p, whole + 1.0).explained


def test_where_a_statistic_means_nothing_dweight_is_not_judged() -> None:
    p = special("float32", scale=1e-30, eps=0.0)
    found = explain_dweight(p, torch.zeros(33, dtype=torch.float64))
    assert found.compared == 0
    assert not found.explained
    assert found.notes == ("not judged: the statistic of a row is beyond what fp32 can hold",)
    assert explain_dx(p, p.forward.x).compared == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_residual_outs_gradient_arrives(dtype: str) -> None:
    p = gradient_problem(
        (4, 33), Fill(seed=1, put=((1, 5, "nan"),)), dtype, fused=True, upstream=("residual_out",)
    )
    assert p.dresidual_out is not None
    for which in ("dx", "dresidual"):
        found = explain_dx(p, p.dresidual_out, which=which)
        assert found.explained
        assert found.compared == 4 * 33
        assert not explain_dx(p, p.dresidual_out * 2.0, which=which).explained
        assert not explain_dx(p, changed(p.dresidual_out, 3, 32, 0.0), which=which).explained
    zeros = torch.zeros(33, dtype=torch.float64)
    found_dweight = explain_dweight(p, zeros)
    assert found_dweight.explained
    assert found_dweight.compared == 33
    assert not explain_dweight(p, zeros + 2.0**-20).explained


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_inf_or_a_nan_of_dresidual_out_stays_where_it_is(dtype: str) -> None:
    p = gradient_problem((4, 33), Fill(seed=1), dtype, fused=True)
    assert p.dresidual_out is not None
    added = changed(changed(p.dresidual_out, 1, 5, -math.inf), 2, 6, math.nan)
    p = replace(p, dresidual_out=added)
    for rounded in (None, "x") if dtype != "float32" else (None,):
        dx = Dx(DxConvention(False, "exact_sum", norm_rounded=rounded))(p)
        assert dx[1, 5] == -math.inf
        assert (~dx.isfinite()).sum() == 2
        assert explain_dx(p, dx).explained
        for row, column, value in (
            (1, 5, math.nan),
            (1, 5, math.inf),
            (1, 5, 0.0),
            (2, 6, 0.0),
            (1, 6, math.nan),
        ):
            assert not explain_dx(p, changed(dx, row, column, value)).explained


def test_a_zero_dy_gives_zero() -> None:
    p = gradient_problem((3, 33), Fill(seed=1), "bfloat16", fused=False)
    assert p.dy is not None
    zero = replace(p, dy=p.dy * 0.0)
    assert explain_dx(zero, p.dy * 0.0).explained
    assert not explain_dx(zero, changed(p.dy * 0.0, 1, 1, 1e-20)).explained
    assert explain_dweight(zero, p.dy[0] * 0.0).explained
    assert not explain_dweight(zero, p.dy[0] * 0.0 + 1e-20).explained
