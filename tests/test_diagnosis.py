"""The diagnosis: a wrong formula is named, a right one never, and the wrong elements are described."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from emulation import Kernel, fills, problem
from torch import Tensor

from conformance.diagnosing.candidate import power_of_two
from conformance.diagnosing.candidates import all_candidates
from conformance.diagnosing.diagnosis import diagnose
from conformance.model import Fill
from conformance.numerics.accuracy import Problem, conventions, explain
from conformance.numerics.rounding import nearest, store

ONE = conventions(False)[0]
DTYPES = ("float16", "bfloat16", "float32")

Formula = Callable[[Tensor, Tensor, float], Tensor]


def mean(h: Tensor) -> Tensor:
    return h.square().mean(-1, keepdim=True)


def by_rrms(rrms: Callable[[Tensor, float], Tensor]) -> Formula:
    return lambda h, w, eps: h * rrms(h, eps) * w


def by_total(total: Callable[[Tensor], Tensor]) -> Formula:
    return by_rrms(lambda h, eps: (total(h.square()) / h.shape[-1] + eps).rsqrt())


def by_weight(weight: Callable[[Tensor], Tensor]) -> Formula:
    return lambda h, w, eps: h * (mean(h) + eps).rsqrt() * weight(w)


def total_of(squares: Tensor) -> Tensor:
    return squares.sum(-1, keepdim=True)


def next_row(squares: Tensor) -> Tensor:
    return total_of(squares) + squares.roll(-1, 0)[:, :1]


def tree_in_dtype(dtype: str) -> Formula:
    def total(squares: Tensor) -> Tensor:
        partial = nearest(squares, dtype)
        partial = torch.nn.functional.pad(partial, (0, power_of_two(squares.shape[1]) - squares.shape[1]))
        while partial.shape[1] > 1:
            half = partial.shape[1] // 2
            partial = nearest(partial[:, :half] + partial[:, half:], dtype)
        return partial

    return by_total(total)


def layer_norm(h: Tensor, w: Tensor, eps: float) -> Tensor:
    centred = h - h.mean(-1, keepdim=True)
    return centred * (mean(centred) + eps).rsqrt() * w


FORMULAS: dict[str, tuple[str, Formula]] = {
    "eps_outside": ("FORMULA-EPS-INSIDE", by_rrms(lambda h, e: 1 / (mean(h).sqrt() + e))),
    "eps_as_floor": ("FORMULA-EPS-INSIDE", by_rrms(lambda h, e: mean(h).clamp_min(e).rsqrt())),
    "eps_omitted": ("FORMULA-EPS-HONOURED", by_rrms(lambda h, e: mean(h).rsqrt())),
    "eps_x10": ("FORMULA-EPS-HONOURED", by_rrms(lambda h, e: (mean(h) + 10 * e).rsqrt())),
    "eps_div10": ("FORMULA-EPS-HONOURED", by_rrms(lambda h, e: (mean(h) + e / 10).rsqrt())),
    "eps_in_the_sum": ("FORMULA-EPS-HONOURED", by_rrms(lambda h, e: (mean(h) + e / h.shape[1]).rsqrt())),
    "eps_0.001": ("FORMULA-EPS-HONOURED", by_rrms(lambda h, e: (mean(h) + 1e-3).rsqrt())),
    "no_root": ("FORMULA-ROOT", by_rrms(lambda h, e: 1 / (mean(h) + e))),
    "divides_by_rrms": ("FORMULA-ROOT", by_rrms(lambda h, e: (mean(h) + e).sqrt())),
    "mean_absolute": ("FORMULA-ROOT", by_rrms(lambda h, e: 1 / (h.abs().mean(-1, keepdim=True) + e))),
    "not_normalised": ("FORMULA-ROOT", by_rrms(lambda h, e: torch.ones_like(h))),
    "divisor_1": ("FORMULA-DIVISOR", by_rrms(lambda h, e: (total_of(h.square()) + e).rsqrt())),
    "divisor_999": ("FORMULA-DIVISOR", by_rrms(lambda h, e: (total_of(h.square()) / 999 + e).rsqrt())),
    "divisor_1024": ("FORMULA-DIVISOR", by_rrms(lambda h, e: (total_of(h.square()) / 1024 + e).rsqrt())),
    "drops_last_1": ("TAIL-COLUMNS", by_total(lambda q: total_of(q[:, :-1]))),
    "drops_last_104": ("TAIL-COLUMNS", by_total(lambda q: total_of(q[:, :896]))),
    "counts_next_row_1": ("TAIL-COLUMNS", by_total(next_row)),
    "tail_of_ones_24": ("TAIL-COLUMNS", by_total(lambda q: total_of(q) + 24)),
    "centred_variance": (
        "FORMULA-NO-MEAN",
        by_rrms(lambda h, e: (mean(h - h.mean(-1, keepdim=True)) + e).rsqrt()),
    ),
    "layer_norm": ("FORMULA-NO-MEAN", layer_norm),
    "bias_is_the_weight": ("FORMULA-NO-BIAS", lambda h, w, e: h * (mean(h) + e).rsqrt() * w + w),
    "bias_constant": ("FORMULA-NO-BIAS", lambda h, w, e: h * (mean(h) + e).rsqrt() * w + 0.03125),
    "weight_ignored": ("FORMULA-WEIGHT", by_weight(torch.ones_like)),
    "weight_absolute": ("FORMULA-WEIGHT", by_weight(torch.abs)),
    "weight_plus_one": ("FORMULA-WEIGHT-OFFSET", by_weight(lambda w: w + 1)),
    "weight_reversed": ("FORMULA-WEIGHT-INDEX", by_weight(lambda w: w.flip(-1))),
    "weight_shifted_round": ("FORMULA-WEIGHT-INDEX", by_weight(lambda w: w.roll(-1))),
    "weight_first_only": ("FORMULA-WEIGHT-INDEX", by_weight(lambda w: w[:1].expand_as(w))),
    "statistic_of_previous_row": ("FORMULA-ROWS", by_rrms(lambda h, e: (mean(h) + e).rsqrt().roll(1, 0))),
    "statistic_of_all_rows": ("FORMULA-ROWS", by_rrms(lambda h, e: (mean(h).mean() + e).rsqrt())),
    "copy": ("FORMULA-ROOT", lambda h, w, e: h),
    "zeros": ("ACCURACY-INTERVAL", lambda h, w, e: torch.zeros_like(h)),
    "columns_reversed": ("ACCURACY-INTERVAL", lambda h, w, e: (h * (mean(h) + e).rsqrt() * w).flip(-1)),
    "scaled": ("ACCURACY-GAIN", by_rrms(lambda h, e: (mean(h) + e).rsqrt() * 1.01)),
}

SHAPE = (9, 1000)


@pytest.mark.parametrize("turn", range(len(FORMULAS)), ids=list(FORMULAS))
def test_a_wrong_formula_is_named(turn: int) -> None:
    """Dtypes take turns. On every fill the fault is invisible or among the matches; on one its requirement
    leads."""
    name = list(FORMULAS)[turn]
    requirement, formula = FORMULAS[name]
    dtype = DTYPES[turn % 3]
    led = False
    for fill in ("scaled", ("mean", "tail", "rowjump")[turn // 3 % 3]):
        p = problem(SHAPE, fills(SHAPE[0])[fill], dtype, fused=False, eps=1e-5)
        y = nearest(formula(p.x, p.weight, p.eps), dtype)
        right = explain(p, y)
        found = diagnose(p, y, right)
        if right.explained:
            assert found.matches == found.structure == ()
            continue
        names = [m.name for m in found.matches]
        assert name in names, (fill, names, found.structure)
        assert requirement == found.matches[names.index(name)].requirement
        assert found.structure
        assert found.requirement in (requirement, None)
        led |= found.requirement == requirement
    assert led


def fused_formulas(p: Problem) -> dict[str, Tensor]:
    x, r, dtype = p.x, p.residual, p.residual_dtype
    s = x + r
    rounded = nearest(s, dtype)

    def norm(numerator: Tensor, source: Tensor) -> Tensor:
        return numerator * (mean(source) + p.eps).rsqrt() * p.weight

    return {
        "residual_x_by_x": norm(x, x),
        "residual_residual_by_residual": norm(r, r),
        "residual_residual_twice_by_residual_twice": norm(s + r, s + r),
        "residual_x_by_sum": norm(x, s),
        "residual_sum_by_x": norm(s, x),
        "residual_stored_x_by_sum": norm(rounded + x, s),
        "residual_after_norm": norm(x, x) + r,
        "residual_difference_by_difference": norm(x - r, x - r),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_faults_of_the_residual(dtype: str) -> None:
    p = problem((5, 257), fills(5)["rowjump"], dtype, fused=True)
    for name, value in fused_formulas(p).items():
        found = diagnose(p, nearest(value, dtype))
        assert found.requirement == "RESIDUAL-ADDED"
        match = found.matches[0]
        assert match.name == name or (dtype == "float32" and "stored" in name)  # there stored is the sum


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_statistic_in_sixteen_bits(dtype: str, fused: bool) -> None:
    p = problem((9, 1000), fills(9)["rowjump"], dtype, fused=fused)
    h = p.x if p.residual is None else p.x + p.residual
    rrms = (mean(h) + p.eps).rsqrt()
    kept = nearest(h * nearest(rrms, dtype) * p.weight, dtype)
    assert diagnose(p, kept).matches[0].requirement == "ACCURACY-RRMS"
    assert diagnose(p, kept).matches[0].name == f"rrms_in_{dtype}"
    if dtype == "bfloat16":  # in fp16 the large rows overflow: another requirement
        summed = diagnose(p, nearest(tree_in_dtype(dtype)(h, p.weight, p.eps), dtype))
        assert summed.matches[0].requirement == "ACCURACY-SUM"
        total = torch.zeros(9, dtype=torch.float64)
        for column in h.square().unbind(-1):
            total = nearest(total + column, dtype)
        y = nearest(h * (total[:, None] / 1000 + p.eps).rsqrt() * p.weight, dtype)
        assert diagnose(p, y).matches[0].name == "sum_in_order_in_bfloat16"


def test_squares_in_half_overflow_or_vanish() -> None:
    for scale, requirement in ((400.0, "RANGE-LARGE"), (2.0e-4, "RANGE-SMALL")):
        p = problem((5, 257), Fill(seed=1, scale=scale), "float16", fused=False, eps=1e-9)
        squares = nearest(p.x.square(), "float16")
        y = nearest(p.x * (squares.mean(-1, keepdim=True) + p.eps).rsqrt() * p.weight, "float16")
        assert diagnose(p, y).matches[0].requirement == requirement


def test_another_eps_or_divisor_than_any_known_is_measured() -> None:
    p = problem((9, 1000), fills(9)["scaled"], "bfloat16", fused=False, eps=1e-5)
    eps = diagnose(p, nearest(p.x * (mean(p.x) + 3.7e-4).rsqrt() * p.weight, "bfloat16"))
    assert [m.name for m in eps.matches] == ["eps_other"]
    assert float(eps.matches[0].sentence.split()[4].rstrip(",")) == pytest.approx(3.7e-4, rel=0.02)
    rrms = (total_of(p.x.square()) / 1111 + p.eps).rsqrt()
    divisor = diagnose(p, nearest(p.x * rrms * p.weight, "bfloat16"))
    assert [m.name for m in divisor.matches] == ["divisor_other"]
    assert float(divisor.matches[0].sentence.split()[8].rstrip(",")) == pytest.approx(1111, rel=0.01)


def test_a_constant_factor_is_measured() -> None:
    p = problem((9, 1000), fills(9)["scaled"], "bfloat16", fused=False)
    y = nearest(p.x * (mean(p.x) + p.eps).rsqrt() * p.weight * 1.25, "bfloat16")
    (match,) = diagnose(p, y).matches
    assert (match.name, match.requirement) == ("scaled", "ACCURACY-GAIN")
    assert "1.25" in match.sentence


def test_factors_of_their_own_without_a_known_cause() -> None:
    p = problem((9, 1000), fills(9)["rowjump"], "bfloat16", fused=False)
    wobble = (
        1 + 0.01 * torch.tensor([1, -1, 0.3, 0.7, -0.2, 0.9, -0.6, 0.1, 0.5], dtype=torch.float64)[:, None]
    )
    found = diagnose(p, nearest(p.x * (mean(p.x) + p.eps).rsqrt() * wobble * p.weight, "bfloat16"))
    assert [m.requirement for m in found.matches] == ["ACCURACY-RRMS"]
    assert "one factor of its own" in found.structure[-1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_no_formula_gives_has_no_match(dtype: str) -> None:
    p = problem((9, 1000), fills(9)["rowjump"], dtype, fused=True)
    y = Kernel(conventions(True)[0])(p)
    noise = problem((9, 1000), Fill(seed=77), dtype, fused=False).x
    assert diagnose(p, nearest(y * (1 + 0.1 * noise), dtype)).matches == ()


@pytest.mark.parametrize(("fused", "dtype"), list(itertools.product((False, True), DTYPES)))
def test_no_candidate_is_named_for_a_right_output(fused: bool, dtype: str) -> None:
    p = problem((5, 129), fills(5)["scaled"], dtype, fused=fused)
    for convention in conventions(fused):
        found = diagnose(p, Kernel(convention)(p))
        assert found.matches == found.structure == ()


def test_candidates_have_names_of_their_own_and_whole_sentences() -> None:
    p = problem((5, 4097), fills(5)["scaled"], "float16", fused=True, offset=1.0, weight_dtype="float32")
    listed = list(all_candidates(p))
    assert len({c.name for c in listed}) == len(listed) > 200
    assert all(c.sentence and not c.sentence.endswith(".") for c in listed)


# --- where, in words ------------------------------------------------------------------------------------


def told(change: Callable[[Tensor], object], shape: tuple[int, int] = (6, 4097)) -> str:
    p = problem(shape, Fill(seed=1), "bfloat16", fused=False)
    y = Kernel(ONE)(p)
    change(y)
    return "; ".join(diagnose(p, y).structure)


def put(rows: object, columns: object, value: float) -> Callable[[Tensor], object]:
    return lambda y: y.__setitem__((rows, columns), value)


EVERY = slice(None)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            put(EVERY, -1, 0.0),
            "every wrong element is 0; every row is affected, in only the last column of 4097",
        ),
        (
            put(EVERY, slice(4090, None), 7.0),
            "every wrong element is 7; every row is affected, "
            "in only the last 7 of 4097 columns (from 4090 on)",
        ),
        (
            put(EVERY, slice(2048, None), math.nan),
            "every wrong element is NaN; every row is affected, "
            "in only the last 2049 of 4097 columns (from 2048 on, where 2048 is 2**11)",
        ),
        (put(-1, EVERY, 0.0), "every wrong element is 0; only the last row of 6, in every column"),
        (put(2, 5, math.inf), "the wrong element is Inf or -Inf; only row 2 of 6, in only column 5 of 4097"),
        (
            put(EVERY, slice(3, None, 16), 9.0),
            "every wrong element is 9; every row is affected, in only every 16th column, from 3 on",
        ),
        (
            lambda y: y.view(-1)[::25].neg_(),
            "every wrong element is of the right size and the wrong sign; "
            "every 25th element of the tensor is wrong",
        ),
    ],
)
def test_the_wrong_elements_are_described(change: Callable[[Tensor], object], sentence: str) -> None:
    assert told(change) == sentence


def test_special_rows() -> None:
    p = problem((4, 33), Fill(seed=1, zero_rows=(2,)), "float32", fused=False)
    y = Kernel(ONE)(p)
    y[2] = math.nan
    assert diagnose(p, y).matches[0].requirement == "SPECIAL-ZERO-ROW"
    p = problem((4, 33), Fill(seed=1, put=((1, 3, "nan"),)), "float32", fused=False)
    clean = problem((4, 33), Fill(seed=1, put=((1, 3, 0.0),)), "float32", fused=False)
    assert [m.name for m in diagnose(p, Kernel(ONE)(clean)).matches] == ["nonfinite_lost"]
    y = Kernel(ONE)(p)
    y[2] = math.nan
    assert [m.name for m in diagnose(p, y).matches] == ["nan_spreads"]
    y = Kernel(ONE)(clean)
    y[0, ::3] = math.nan
    assert [m.name for m in diagnose(clean, y).matches] == ["nan_from_finite"]


def test_a_fault_of_the_store() -> None:
    p = problem((9, 1000), fills(9)["rowjump"], "float32", fused=False)
    through = store(nearest(p.x * (mean(p.x) + p.eps).rsqrt() * p.weight, "bfloat16"), "float32").double()
    assert [m.name for m in diagnose(p, through).matches] == ["output_through_bfloat16"]


def test_formulas_that_fit_alike_name_no_requirement_unless_they_agree() -> None:
    """One row with a mean square of hidden_size + 1 times eps: no eps equals another divisor there."""
    p = problem((1, 512), Fill(seed=1), "bfloat16", fused=False)
    p = replace(p, eps=float(mean(p.x)) / 513)
    found = diagnose(p, nearest(p.x * mean(p.x).rsqrt() * p.weight, "bfloat16"))
    assert {"eps_omitted", "divisor_513"} <= {m.name for m in found.matches}
    assert found.requirement is None
