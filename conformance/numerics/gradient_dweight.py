"""Which rounding convention explains dweight: every column inside the interval of ONE convention.

A column is a sum over all rows, so no chunk of rows can contradict a convention. Columns are judged in blocks
of growing width instead: most conventions fall in the first, which is narrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from conformance.numerics.conventions import chunk_elements
from conformance.numerics.gradient_conventions import (
    DweightConvention,
    GradientProblem,
    dweight_conventions,
)
from conformance.numerics.gradient_explanation import Elimination, GradientExplanation, Tally, share_of
from conformance.numerics.gradient_intervals import DweightParts, DweightSums
from conformance.numerics.gradient_parts import RowStatistics, dweight_parts, row_statistics
from conformance.numerics.intervals import Interval, finite_ends
from conformance.numerics.rounding import torch_dtype
from conformance.numerics.shares import half_spacing

_FIRST = 1 << 19  # elements of the first block of columns


def explain_dweight(problem: GradientProblem, values: Tensor) -> GradientExplanation[DweightConvention]:
    """Try the conventions on dweight, (hidden_size,) float64 holding exact values of its dtype.

    Without rows, or where no gradient of y arrives, it must be zeros. Kinds are matched before numbers. Where
    nothing is known of a row, no column is judged. Raises ValueError where values has another shape or dtype,
    or where there is no weight.
    """
    _refuse(problem, values)
    tried = dweight_conventions(problem)
    terms = _Terms(problem)
    left = Elimination(tried, tried if terms.any else [None] * len(tried))
    blocks = list(_blocks(problem))
    for columns in blocks:
        found = terms.sums(left.alive, columns)
        left.drop({c: int(terms.outside(c, found[c], values, columns)[1].sum()) for c in left.alive})
        if not left.alive:
            break
    return _look(terms, values, left, blocks)


def wrong_dweight(problem: GradientProblem, values: Tensor, convention: DweightConvention) -> Tensor:
    """True for every column of dweight that `convention` does not explain, (hidden_size,)."""
    _refuse(problem, values)
    terms = _Terms(problem)
    wrong = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
    for columns in _blocks(problem):
        sums = terms.sums([convention], columns)[convention]
        wrong[columns] = terms.outside(convention, sums, values, columns)[1]
    return wrong


def dweight_interval(problem: GradientProblem, convention: DweightConvention) -> tuple[Tensor, Tensor]:
    """The lowest and highest allowed value of every column under `convention`, float64, values of its dtype.

    Where the formula gives NaN or Inf both ends are that.
    """
    terms = _Terms(problem)
    ends = []
    for columns in _blocks(problem):
        sums = terms.sums([convention], columns)[convention]
        like = problem.forward.x.new_zeros(columns.stop - columns.start)
        ends.append(finite_ends(sums.interval(like, problem.dweight_dtype)))
    low, high = zip(*ends, strict=True)
    return torch.cat(low), torch.cat(high)


class _Terms:
    """The terms of dweight, summed over all rows for the columns asked for."""

    def __init__(self, problem: GradientProblem) -> None:
        self.problem = problem
        # Without any term dweight is exactly zero.
        self.any = problem.dy is not None and problem.n_rows > 0
        self._statistics: dict[str | None, RowStatistics] = {}

    def statistics(self, norm_input: str | None) -> RowStatistics:
        """The rows' statistics; those of mixed are those of the exact sum."""
        key = "exact_sum" if norm_input == "mixed" else norm_input
        if key not in self._statistics:
            self._statistics[key] = row_statistics(self.problem, key)
        return self._statistics[key]

    def sums(
        self, conventions: Iterable[DweightConvention], columns: slice
    ) -> dict[DweightConvention, DweightSums]:
        """What the interval of each convention needs, for some columns. What they share is read once."""
        found = {
            c: DweightSums(
                rounds_x_hat=c.rounds_x_hat,
                rounds_product=c.rounds_product,
                x_dtype=self.problem.forward.x_dtype,
            )
            for c in conventions
        }
        if self.any:
            for rows in _row_slices(self.problem, columns.stop - columns.start):
                parts: dict[str | None, DweightParts] = {}
                for c, sums in found.items():
                    if c.norm_input not in parts:
                        stats = self.statistics(c.norm_input)
                        parts[c.norm_input] = dweight_parts(self.problem, c.norm_input, stats, rows, columns)
                    sums.add(parts[c.norm_input])
        return found

    def unjudged(self, norm_input: str | None) -> bool:
        """Whether there is a row of which nothing is known, so that no column can be judged."""
        return self.any and bool(self.statistics(norm_input).lost.any())

    def accepts_nan(self, norm_input: str | None) -> bool:
        """Whether a NaN is right in any column: a row with an Inf, or one whose mean square overflows."""
        if not self.any:
            return False
        stats = self.statistics(norm_input)
        return bool((stats.infinite | (stats.relative == 1.0)).any())

    def outside(
        self, convention: DweightConvention, sums: DweightSums, values: Tensor, columns: slice
    ) -> tuple[Interval, Tensor]:
        """The interval, and True for every column outside it after special values have had their say."""
        actual = values[columns]
        found = sums.interval(actual, self.problem.dweight_dtype)
        stored = actual.to(torch_dtype(self.problem.dweight_dtype))
        inside = (found.low <= stored) & (stored <= found.high)
        if bool(inside.all()):
            return found, ~inside
        inside |= found.centre.isnan() & stored.isnan()
        inside |= found.centre.isinf() & (found.centre == stored)
        if self.accepts_nan(convention.norm_input):
            inside |= stored.isnan()
        if self.unjudged(convention.norm_input):
            inside |= True
        return found, ~inside


def _look(
    terms: _Terms, values: Tensor, left: Elimination[DweightConvention], blocks: list[slice]
) -> GradientExplanation[DweightConvention]:
    """A pass under one convention: what violates it, and the share of the allowed error used."""
    problem, best, tally = terms.problem, left.best, Tally()
    if terms.unjudged(best.norm_input):
        note = "not judged: the statistic of a row is beyond what fp32 can hold"
        return GradientExplanation((), 0, best, notes=(note,))
    notes: tuple[str, ...] = ()
    if terms.accepts_nan(best.norm_input) and bool(values.isnan().any()):
        notes = ("NaN was accepted: a row has an Inf, or a mean square beyond what fp32 can hold",)
    for columns in blocks:
        sums = terms.sums([best], columns)[best]
        found, outside = terms.outside(best, sums, values, columns)
        tally.add(found, values[columns], outside, problem.dweight_dtype, columns.start)
        low, high, centre = sums.ends(values[columns])
        error = (high - low) / 2.0
        rounding = half_spacing(values[columns], centre, problem.dweight_dtype)
        if sums.rounds_x_hat or sums.rounds_product:
            # What terms may be rounded to is steps, not a part of an error.
            flips = (sums.high - sums.low) / 2.0
            error, rounding = error - flips, rounding + flips
        stored = values[columns].to(found.low.dtype)
        excused = ~((found.low <= stored) & (stored <= found.high) | outside)
        tally.share = max(tally.share, share_of(values[columns], centre, rounding, error, excused))
    return tally.explanation(left.names, values.numel(), best, notes)


def _refuse(problem: GradientProblem, values: Tensor) -> None:
    if problem.forward.weight is None:
        raise ValueError("the problem has no weight, so it has no dweight to explain")
    if tuple(values.shape) != (problem.hidden_size,) or values.dtype != torch.float64:
        raise ValueError(
            f"values is {tuple(values.shape)} {values.dtype}, but should be a float64 copy of shape "
            f"({problem.hidden_size},)"
        )


def _blocks(problem: GradientProblem) -> Iterator[slice]:
    """Runs of columns, each as wide as all before it together; every column once."""
    start, width = 0, max(1, _FIRST // max(1, problem.n_rows))
    while start < problem.hidden_size:
        stop = min(problem.hidden_size, start + width)
        yield slice(start, stop)
        start, width = stop, stop


def _row_slices(problem: GradientProblem, width: int) -> Iterator[slice]:
    """Runs of rows few enough for `width` columns of them to be judged at once."""
    step = max(1, chunk_elements(problem.forward.x.device) // width)
    for start in range(0, problem.n_rows, step):
        yield slice(start, min(problem.n_rows, start + step))
