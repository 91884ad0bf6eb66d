"""Signed bias, row gain and histogram: right kernels are never accused, coherent faults are."""

from __future__ import annotations

import itertools

import pytest
import torch
from emulation import ORDERS, ROOTS, Kernel, fills, problem
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.accuracy import Problem, conventions, explain, statistics
from conformance.numerics.conventions import Convention
from conformance.numerics.rounding import nearest, store_outward
from conformance.numerics.statistics import ULP_BINS

SHAPE = (16, 2048)
ONE, TWO = conventions(False)[:2]


def right(dtype: str, convention: Convention = ONE) -> tuple[Problem, Tensor]:
    p = problem(SHAPE, Fill(seed=1), dtype, fused=False)
    return p, Kernel(convention)(p)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("convention", [ONE, TWO], ids=lambda c: c.name)
def test_a_right_kernel_is_unbiased(dtype: str, convention: Convention) -> None:
    p, y = right(dtype, convention)
    numbers = statistics(p, convention, y)
    assert SHAPE[0] * SHAPE[1] - 4 <= numbers["count"] <= SHAPE[0] * SHAPE[1]  # all but exact zeros
    assert abs(numbers["bias"]) < (0.6 if dtype == "float32" else 0.12)
    assert numbers["bias_ok"] == numbers["gain_ok"] == 1.0
    assert abs(numbers["bias_excess"]) <= numbers["bias_allowed"]
    histogram = [numbers[f"ulp_le_{edge:g}"] for edge in ULP_BINS] + [numbers["ulp_more"]]
    assert sum(histogram) == numbers["count"]
    if dtype != "float32":
        assert numbers["ulp_max"] <= (1.5 if convention is TWO else 0.51)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_truncation_is_a_bias_of_half_an_ulp(dtype: str) -> None:
    p = problem(SHAPE, Fill(seed=1), dtype, fused=False)
    truncating = next(c for c in conventions(False) if c.truncating)
    numbers = statistics(p, truncating.name, Kernel(truncating)(p))
    assert numbers["bias"] == pytest.approx(-0.5, abs=0.03)
    assert numbers["bias_ok"] == 0.0
    assert numbers["bias_z"] < -50


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_away_from_zero_is_a_bias_the_other_way(dtype: str) -> None:
    p, _y = right(dtype)
    exact = p.x * (p.x.square().mean(-1, keepdim=True) + p.eps).rsqrt() * p.weight
    numbers = statistics(p, ONE, store_outward(exact, dtype).double())
    assert numbers["bias"] == pytest.approx(0.5, abs=0.03)
    assert numbers["bias_ok"] == 0.0


@pytest.mark.parametrize(("dtype", "factor"), [("bfloat16", 1.003), ("float16", 1.0005), ("float32", 1.0001)])
def test_one_row_off_by_a_factor_is_found(dtype: str, factor: float) -> None:
    p, y = right(dtype)
    y = y.clone()
    y[5] = nearest(y[5] * factor, dtype)
    numbers = statistics(p, ONE, y)
    assert numbers["gain_ok"] == 0.0
    assert numbers["gain_row"] == 5
    assert numbers["gain"] == pytest.approx(factor - 1, rel=0.5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("weight", ["constant", "none"])
def test_equal_values_that_all_round_alike_accuse_nobody(dtype: str, weight: str) -> None:
    """A tensor of ones has one rounding error, not 32768 independent ones."""
    plain = problem(SHAPE, Fill(kind="constant", scale=0.7), dtype, fused=False)
    w = None if weight == "none" else nearest(torch.full((SHAPE[1],), 1.3, dtype=torch.float64), dtype)
    p = Problem(plain.x, None, w, 1e-3, 0.0, dtype, "", dtype, dtype)
    for convention in (ONE, TWO):
        y = Kernel(convention)(p)
        assert explain(p, y).explained
        numbers = statistics(p, convention, y)
        assert numbers["bias_ok"] == numbers["gain_ok"] == 1.0


def test_what_is_not_finite_is_left_out() -> None:
    p = problem((4, 33), Fill(seed=1, put=((1, 5, "nan"), (2, 0, "inf"))), "bfloat16", fused=False)
    numbers = statistics(p, ONE, Kernel(ONE)(p))
    assert numbers["count"] == 2 * 33
    assert numbers["bias_ok"] == numbers["gain_ok"] == 1.0
    empty = Problem(p.x[:0], None, None, 1e-6, 0.0, "float16", "", "", "float16")
    assert statistics(empty, ONE, p.x[:0]) == {"count": 0.0}


def false_alarm_cases() -> list[tuple[str, bool, tuple[int, int]]]:
    shapes = ((5, 1), (4, 3), (33, 129), (9, 1000), (3, 4099))
    return list(itertools.product(("float16", "bfloat16", "float32"), (False, True), shapes))


@pytest.mark.parametrize(("dtype", "fused", "shape"), false_alarm_cases())
def test_no_correct_kernel_is_rejected(dtype: str, fused: bool, shape: tuple[int, int]) -> None:
    """Every convention, over the accuracy rule's fills; orders of summation and roots take turns."""
    turns = itertools.cycle(itertools.product(ORDERS, ROOTS))
    eps = itertools.cycle((1e-5, 1e-6, 1e-3))
    for name, fill in fills(shape[0]).items():
        p = problem(shape, fill, dtype, fused=fused, eps=next(eps))
        for convention in conventions(fused):
            if convention.truncating:
                continue
            for _ in range(2):
                order, root = next(turns)
                y = Kernel(convention, order, root)(p)
                found = explain(p, y)
                assert convention.name in found.conventions, (name, order, root, found.worst)
                assert 0 <= found.share <= 1
                numbers = statistics(p, convention, y)
                assert numbers["bias_ok"] == numbers["gain_ok"] == 1.0, (name, order, root, numbers)
            for _ in range(5):  # steps of 7 through 24 pairs: every pair meets every kind of fill in time
                next(turns)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_cases_together_single_out_the_convention(dtype: str) -> None:
    for fused in (False, True):
        for convention in conventions(fused):
            if convention.truncating:
                continue
            names: set[str] | None = None
            for shape in ((33, 129), (9, 1000)):
                for fill in fills(shape[0]).values():
                    p = problem(shape, fill, dtype, fused=fused)
                    found = set(explain(p, Kernel(convention)(p)).conventions)
                    names = found if names is None else names & found
            assert names == {convention.name}
