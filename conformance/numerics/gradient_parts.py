"""The right formula of the backward taken apart, for some rows of a problem and every convention.

What the conventions share is computed once. What fp32 cannot hold on the way is found here too: rows that are
not judged, and what may be flushed to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from conformance.numerics.conventions import Convention, row_chunks
from conformance.numerics.gradient_conventions import DxConvention, GradientProblem
from conformance.numerics.gradient_intervals import DweightParts, DxParts
from conformance.numerics.intervals import (
    LARGEST_SINGLE,
    SMALLEST_NORMAL,
    Statistic,
    U,
    source_of,
    statistic,
    weight_of,
)
from conformance.numerics.repeats import repeats
from conformance.numerics.rounding import nearest


@dataclass(frozen=True)
class _Scaled:
    """a = dy * weight of one convention, and width: how far a stored a may be from it, or None for exactly
    known."""

    a: Tensor
    width: Tensor | None
    cost: float


class GradientRows:
    """Some rows of a problem: their statistic, a, c and S under each convention, computed when asked for."""

    def __init__(self, problem: GradientProblem) -> None:
        self.problem = problem
        self._sources: dict[str | None, tuple[Tensor, Statistic, Tensor]] = {}
        self._scaled: dict[tuple[bool, bool], _Scaled] = {}
        self._dx: dict[tuple[str | None, bool, bool], DxParts] = {}

    def source(self, norm_input: str | None) -> tuple[Tensor, Statistic, Tensor]:
        """numerator, statistic and x_hat of the sum that the backward reads."""
        if norm_input not in self._sources:
            forward = self.problem.forward
            numerator, source = source_of(forward, Convention(False, norm_input))
            stat = statistic(source, forward.eps, fused=forward.fused)
            self._sources[norm_input] = numerator, stat, numerator * stat.rrms
        return self._sources[norm_input]

    @cached_property
    def largest_dy(self) -> Tensor:
        """max |dy| of every row, (n_rows, 1); 0 where no gradient of y arrives."""
        dy = self.problem.dy
        if dy is None:
            return torch.zeros_like(self.problem.forward.x[:, :1])
        return dy.abs().amax(dim=-1, keepdim=True)

    @cached_property
    def largest_weight(self) -> float:
        weight = weight_of(self.problem.forward, Convention(False))[0]
        return 1.0 if weight is None else float(weight.abs().max())

    def has_infinity(self, convention: DxConvention) -> Tensor:
        """Rows whose sum of x_hat * a meets an Inf of x, dy or the stored a, (n_rows, 1)."""
        if self.problem.dy is None:
            return torch.zeros_like(self.problem.forward.x[:, :1], dtype=torch.bool)
        a = self.scaled(convention.rounds_a, convention.rounds_weight).a
        return self.source(convention.norm_input)[1].infinite | a.isinf().any(dim=-1, keepdim=True)

    def unjudged(self, norm_input: str | None) -> Tensor:
        """Rows of dx that fp32 cannot hold on the way, (n_rows, 1): their mean square, rrms cubed or the row
        sum. Recorded, never failed."""
        rrms, hidden_size = self.source(norm_input)[1].rrms, self.problem.hidden_size
        found = self.source(norm_input)[1].unjudged
        if self.problem.dy is None:
            return torch.zeros_like(found)
        row_sum = hidden_size**1.5 * self.largest_dy * self.largest_weight * (1.0 + 1.0 / rrms)
        beyond = row_sum.isfinite() & (row_sum > LARGEST_SINGLE)
        return found | beyond | (rrms.isfinite() & (rrms**3 > LARGEST_SINGLE))

    def scaled(self, rounds_a: bool, rounds_weight: bool) -> _Scaled:
        """a = dy * weight, as a convention rounds it."""
        key = (rounds_a, rounds_weight)
        if key not in self._scaled:
            self._scaled[key] = self._scale(rounds_a, rounds_weight)
        return self._scaled[key]

    def _scale(self, rounds_a: bool, rounds_weight: bool) -> _Scaled:
        forward, dy = self.problem.forward, self.problem.dy
        weight, cost = weight_of(forward, Convention(False, rounds_weight=rounds_weight))
        if dy is None or weight is None:
            return _Scaled(torch.zeros_like(forward.x) if dy is None else dy, None, cost)
        a = dy * weight
        if not rounds_a:
            return _Scaled(a, None, cost)
        if torch.equal(weight.to(torch.float32).to(torch.float64), weight):
            # dy and the weight are fp32 numbers, so float64 holds their product and the rounding is known.
            return _Scaled(nearest(a, forward.x_dtype), None, cost)
        # weight + offset was rounded to fp32 first, by at most u; rounding is monotone.
        spare = a.abs() * U
        low, high = nearest(a - spare, forward.x_dtype), nearest(a + spare, forward.x_dtype)
        return _Scaled((low + high) / 2.0, (high - low).abs_() / 2.0, cost)

    def dx_parts(self, convention: DxConvention) -> DxParts:
        """ds taken apart. Where no gradient of y arrives its two terms are zero."""
        key = (convention.norm_input, convention.rounds_a, convention.rounds_weight)
        if key not in self._dx:
            self._dx[key] = self._parts(*key)
        return self._dx[key]

    def _parts(self, norm_input: str | None, rounds_a: bool, rounds_weight: bool) -> DxParts:
        added = self.problem.dresidual_out
        if self.problem.dy is None:
            zeros = torch.zeros_like(self.problem.forward.x)
            return DxParts(zeros, zeros, zeros, 0.0, added)
        _, stat, x_hat = self.source(norm_input)
        scaled = self.scaled(rounds_a, rounds_weight)
        terms = x_hat * scaled.a
        c = terms.mean(dim=-1, keepdim=True)
        size = terms.abs_().mean(dim=-1, keepdim=True)
        repeated = repeats(terms) / (terms.shape[-1] * size).clamp_min(SMALLEST_NORMAL)
        rrms = stat.rrms
        second = x_hat * (rrms * c)
        slack = self._flushed(rrms)
        if scaled.width is not None:
            of_row = (x_hat.abs() * scaled.width).mean(dim=-1, keepdim=True)
            spread = (scaled.width + x_hat.abs() * of_row).mul_(rrms)
            slack = (slack + spread).nan_to_num_(nan=torch.inf, posinf=torch.inf)
        # c * rrms² is formed as rrms³ * sum(a * h) / N by some: each step may be flushed.
        lost = SMALLEST_NORMAL / rrms**3 + 2.0 * SMALLEST_NORMAL / (c.abs() * rrms**2)
        lost = torch.where(c == 0.0, 0.0, lost.clamp_max(1.0)) + repeated
        scale = x_hat.abs().mul_(rrms * size)
        return DxParts(scaled.a * rrms, second, scale, stat.relative, added, scaled.cost, lost, slack)

    def _flushed(self, rrms: Tensor) -> Tensor:
        """The most that subnormals flushed to zero can cost an element of dx, (n_rows, 1).

        Of a: an input or the product. Of x_hat: x, the residual, their sum or the product. Of c: each a and
        x_hat, the products with them, whether rrms is multiplied before the sum or after. |x_hat| is at most
        sqrt(N).
        """
        largest_hat = math.sqrt(self.problem.hidden_size)
        largest_a = self.largest_dy * self.largest_weight
        of_a = 1.0 + self.largest_dy + self.largest_weight
        of_hat = 1.0 + 3.0 * rrms
        of_c = largest_hat * of_a + of_hat * largest_a + 2.0 * (1.0 + rrms)
        flushed = rrms * (of_a + largest_hat * of_c + of_hat * largest_a) + 3.0
        return flushed * SMALLEST_NORMAL


@dataclass(frozen=True)
class RowStatistics:
    """The statistics of all rows under one norm_input, each (n_rows, 1) float64 or bool.

    relative is 1 where the mean square overflows fp32: x_hat is then anything between 0 and twice itself.
    lost: rows of which nothing is known. infinite: rows with an Inf.
    """

    rrms: Tensor
    relative: Tensor
    slack: Tensor
    lost: Tensor
    infinite: Tensor


def row_statistics(problem: GradientProblem, norm_input: str | None) -> RowStatistics:
    """What the columns of dweight need to know of every row; n_rows must be 1 at least."""
    found: list[tuple[Tensor, ...]] = []
    largest_hat = math.sqrt(problem.hidden_size)
    for start, stop in row_chunks(problem.forward):
        rows = GradientRows(problem.rows(start, stop))
        forward = rows.problem.forward
        source = source_of(forward, Convention(False, norm_input))[1]
        stat = statistic(source, forward.eps, fused=forward.fused)
        overflows = stat.unjudged & (stat.rrms < 1.0)
        relative = torch.where(overflows, 1.0, stat.relative)
        flushed = 1.0 + largest_hat + rows.largest_dy * (1.0 + 3.0 * stat.rrms)
        found.append(
            (
                stat.rrms,
                relative,
                torch.where(flushed.isfinite(), flushed, 0.0) * SMALLEST_NORMAL,
                stat.unjudged & ~overflows,
                stat.infinite,
            )
        )
    return RowStatistics(*(torch.cat(columns) for columns in zip(*found, strict=True)))


def dweight_parts(
    problem: GradientProblem, norm_input: str | None, stats: RowStatistics, rows: slice, columns: slice
) -> DweightParts:
    """The terms of some rows and columns of dweight. Raises ValueError where no gradient of y arrives."""
    if problem.dy is None:
        raise ValueError("dy is None, but should be given: without it dweight has no terms")
    forward = problem.forward
    x = forward.x[rows, columns]
    numerator = x
    if forward.residual is not None:
        numerator = x + forward.residual[rows, columns]
        if norm_input != "exact_sum":
            numerator = nearest(numerator, forward.residual_dtype)
    return DweightParts(
        problem.dy[rows, columns], numerator * stats.rrms[rows], stats.relative[rows], stats.slack[rows]
    )
