"""The allowed interval of every element, derived from the error model of fp32 arithmetic.

u = 2**-24, N = hidden_size. An fp32 kernel's x_hat = h * rrms may be off, relatively, by

    B(N) = (4 * sqrt(N) + 8) * u

of which 4 sqrt(N) pays for the sum of squares (a probabilistic bound of 8 sqrt(N) u in any order, halved by
the square root), 4 for a reciprocal root good to 2 ulp, 3 for the division by N, the addition of eps and the
product, and 1 is spare. A fused add's fp32 sum costs one more u, the product with the weight another, and
weight + weight_offset another. The real interval is then rounded, end by end, exactly as the convention
stores (monotone, so exact for one rounding):

    one rounding    [r(c - a), r(c + a)],  c = x_hat * W,  a = |c| * (b + u) + tiny
    two roundings   x_hat in [r(x_hat - a), r(x_hat + a)], times W, plus or minus u, rounded again

Not a proof: sums of many equal squares in sequential order exceed the probabilistic term (measured: 6.3 times
at 40999). For rows of squares that are alike a proven term is added (`conformance.numerics.repeats`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.numerics.conventions import Convention, Problem
from conformance.numerics.oracle import effective_weight, norm_source
from conformance.numerics.repeats import repeats
from conformance.numerics.rounding import nearest, store, truncated

U = 2.0**-24
TINY = 1e-45  # just under the smallest fp32 subnormal: pays for a result rounded to the last place there
SMALLEST_NORMAL = 2.0**-126
LARGEST_SINGLE = (2.0 - 2.0**-23) * 2.0**127


def bound(hidden_size: int) -> float:
    """B(N), the allowed relative error of x_hat and of rrms for rows of `hidden_size` elements."""
    return (4.0 * math.sqrt(hidden_size) + 8.0) * U


@dataclass(frozen=True)
class Parts:
    """A formula taken apart: y = numerator * rrms * weight, before any rounding of x_hat or y.

    numerator (n_rows, hidden_size); rrms (n_rows, 1), or (n_rows, hidden_size) where a wrong formula needs
    it; weight (hidden_size,), (n_rows, hidden_size) or None; relative: the allowed relative error of x_hat, a
    number or (n_rows, 1); product_error: what W and the product with it cost, in units of U; added: what a
    wrong formula adds to numerator * rrms * weight, or None; after y was stored once, where
    `added_to_stored`. slack: an absolute error of x_hat beside the relative one, (n_rows, 1), or None. known:
    which elements the formula says anything of, broadcast to (n_rows, hidden_size), or None for all.
    """

    numerator: Tensor
    rrms: Tensor
    weight: Tensor | None
    relative: float | Tensor
    product_error: float = 1.0
    added: Tensor | None = None
    added_to_stored: bool = False
    slack: Tensor | None = None
    known: Tensor | None = None


@dataclass(frozen=True)
class Interval:
    """centre: the real value before the last rounding, float64; low and high in the dtype of y."""

    centre: Tensor
    low: Tensor
    high: Tensor


@dataclass(frozen=True)
class Statistic:
    """A row's statistic and what it says about how the row may be judged; every field is (n_rows, 1).

    rrms float64. unjudged: the sum of squares overflows fp32, or mean square + eps is too near fp32's
    smallest normal number for its reciprocal root to mean anything: recorded, never failed. infinite: the row
    holds an Inf and no NaN. relative: B(N), plus u for a fused add, plus what flushed squares may cost, plus
    what a sum of squares that are alike may.
    """

    rrms: Tensor
    unjudged: Tensor
    infinite: Tensor
    relative: Tensor


def statistic(source: Tensor, eps: float, *, fused: bool) -> Statistic:
    """The statistic of the rows of `source`, (n_rows, hidden_size) float64."""
    hidden_size = source.shape[-1]
    squares = source * source
    mean = squares.mean(dim=-1, keepdim=True)
    total = mean + eps
    rrms = 1.0 / torch.sqrt(total)
    base = bound(hidden_size) + (U if fused else 0.0)
    finite = mean.isfinite()
    overflows = finite & (mean * hidden_size * (1.0 + 2.0 * base) > LARGEST_SINGLE)
    vanishes = (total >= 0.0) & (total < 64.0 * SMALLEST_NORMAL)
    # Squares, partial sums and the mean below 2**-126 may each be flushed to zero: together at most 3 *
    # 2**-126 of the mean square, of which the reciprocal root feels half.
    relative = base + 1.5 * SMALLEST_NORMAL / total.clamp_min(SMALLEST_NORMAL)
    # The same half of what the sum loses where its roundings are all to one side.
    relative = relative + 0.5 * repeats(squares) / (hidden_size * total.clamp_min(SMALLEST_NORMAL))
    return Statistic(rrms, overflows | vanishes, mean.isinf(), relative)


def source_of(problem: Problem, convention: Convention) -> tuple[Tensor, Tensor]:
    """The convention's numerator and the source of its statistic."""
    return norm_source(
        problem.x,
        problem.residual,
        convention.norm_input or "exact_sum",
        problem.residual_dtype,
        truncating=convention.truncates_sum,
    )


def weight_of(problem: Problem, convention: Convention) -> tuple[Tensor | None, float]:
    """The effective weight of the convention and the cost of it and its product, in units of U."""
    if problem.weight is None:
        return None, 1.0
    weight = effective_weight(problem.weight, problem.weight_offset)
    if not problem.weight_offset:
        return weight, 1.0
    if convention.rounds_weight and weight is not None:
        return nearest(weight, problem.weight_dtype), 1.0
    return weight, 2.0


def parts_of(problem: Problem, convention: Convention) -> Parts:
    """The right formula under one convention, taken apart."""
    numerator, source = source_of(problem, convention)
    stat = statistic(source, problem.eps, fused=problem.fused)
    weight, product_error = weight_of(problem, convention)
    return Parts(numerator, stat.rrms, weight, stat.relative, product_error)


def interval_of(
    parts: Parts,
    *,
    rounds_x_hat: bool,
    x_dtype: str,
    y_dtype: str,
    truncating: bool = False,
    x_hat: Tensor | None = None,
    last: Callable[[Tensor, str], Tensor] | None = None,
) -> Interval:
    """The interval of any formula taken apart, right or wrong. `x_hat`: numerator * rrms, where it is at
    hand. `last`: another monotone rounding for the store of y.

    Ends are NaN where the centre is not finite; `finite_ends` mends that, and `accuracy` judges those by
    kind.
    """
    if x_hat is None:
        x_hat = parts.numerator * parts.rrms
    weight, cost = parts.weight, parts.product_error * U
    centre = x_hat if weight is None else x_hat * weight

    def stored(t: Tensor) -> Tensor:
        return last(t, y_dtype) if last else store(t, y_dtype, truncating=truncating)

    if rounds_x_hat:
        low, high = _twice(parts, x_hat, cost, x_dtype, truncated if truncating else nearest)
    else:
        a = real_error(parts, centre)
        low, high = centre - a, a.add_(centre)
    if parts.added is not None:
        if parts.added_to_stored:
            low, high = stored(low).to(torch.float64), stored(high).to(torch.float64)
        spare = (x_hat.abs() + parts.added.abs()) * (2.0 * U)
        centre, low, high = centre + parts.added, low + parts.added - spare, high + parts.added + spare
    return Interval(centre, stored(low), stored(high))


def real_error(parts: Parts, centre: Tensor) -> Tensor:
    """How far x_hat * weight, computed in fp32, may be from `centre`, the real product."""
    weight = parts.weight
    a = centre.abs().mul_(parts.relative + parts.product_error * U)
    a += TINY if weight is None else TINY * (1.0 + weight.abs())
    if parts.slack is not None:
        a += parts.slack if weight is None else parts.slack * weight.abs()
    return a


def _twice(
    parts: Parts, x_hat: Tensor, cost: float, x_dtype: str, rounded: Callable[[Tensor, str], Tensor]
) -> tuple[Tensor, Tensor]:
    """Two roundings: the ends of x_hat as stored in x_dtype, times the weight, in fp32."""
    a = x_hat.abs().mul_(parts.relative).add_(TINY)
    if parts.slack is not None:
        a += parts.slack
    first = rounded(x_hat - a, x_dtype)
    second = rounded(a.add_(x_hat), x_dtype)
    if parts.weight is None:
        return first, second
    first, second = first * parts.weight, second * parts.weight
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    k = torch.maximum(low.abs(), high.abs()).mul_(cost)
    return low.sub_(k), high.add_(k)


def interval(problem: Problem, convention: Convention) -> tuple[Tensor, Tensor]:
    """The lowest and highest allowed value of every element under `convention`, float64, values of y_dtype.

    Where the formula gives NaN or Inf, both ends are that. What special rows may hold beside it (a 0 or a NaN
    beside an Inf, flushed subnormals, rows that overflow fp32) is in
    `conformance.numerics.accuracy.explain`, not in the interval.
    """
    found = interval_of(
        parts_of(problem, convention),
        rounds_x_hat=convention.rounds_x_hat,
        x_dtype=problem.x_dtype,
        y_dtype=problem.y_dtype,
        truncating=convention.truncates_y,
    )
    return finite_ends(found)


def finite_ends(found: Interval) -> tuple[Tensor, Tensor]:
    """Both ends in float64, replaced by the centre where that is not finite."""
    special = ~found.centre.isfinite()
    low, high = found.low.to(torch.float64), found.high.to(torch.float64)
    return torch.where(special, found.centre, low), torch.where(special, found.centre, high)
