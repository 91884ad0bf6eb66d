"""Which rounding convention explains dx or dresidual: every element inside the interval of ONE convention."""

from __future__ import annotations

import torch
from torch import Tensor

from conformance.numerics.conventions import row_chunks
from conformance.numerics.gradient_conventions import DxConvention, GradientProblem, dx_conventions
from conformance.numerics.gradient_explanation import Elimination, GradientExplanation, Tally, share_of
from conformance.numerics.gradient_intervals import added_error, dx_error, dx_interval_of
from conformance.numerics.gradient_parts import GradientRows
from conformance.numerics.intervals import Interval, U, finite_ends
from conformance.numerics.rounding import torch_dtype, ulp
from conformance.numerics.shares import half_spacing


def explain_dx(
    problem: GradientProblem, values: Tensor, *, which: str = "dx"
) -> GradientExplanation[DxConvention]:
    """Try the conventions on dx or dresidual, (n_rows, hidden_size) float64 holding values of its dtype.

    Kinds (NaN, +Inf, -Inf) are matched before numbers. Rows that fp32 cannot hold on the way are not judged,
    and noted. Raises ValueError where values has another shape or dtype, or for another `which`.
    """
    _refuse(problem, values)
    tried = dx_conventions(problem, which)
    if values.numel() == 0:
        return GradientExplanation((), 0, tried[0], notes=("zero elements were compared",))
    left = Elimination(tried, [c.effect(problem, which) for c in tried])
    stored = values.to(torch_dtype(problem.dtype_of(which)))
    look = _Look(problem, values, stored, left.best, which)
    for start, stop in row_chunks(problem.forward):
        rows = GradientRows(problem.rows(start, stop))
        violations = {}
        for convention in left.alive:
            found, outside = _outside(rows, stored[start:stop], convention, which)
            violations[convention] = int(outside.sum())
            if convention == look.convention and not violations[convention]:
                look.add(rows, found, outside, start, stop)
        left.drop(violations)
        if not left.alive:
            break
        if look.convention != left.best:
            look = _Look(problem, values, stored, left.best, which).over(stop)
    if not left.alive:
        look = _Look(problem, values, stored, left.best, which).over(problem.n_rows)
    return look.tally.explanation(left.names, look.compared, left.best, look.notes)


def wrong_dx(problem: GradientProblem, values: Tensor, convention: DxConvention, which: str) -> Tensor:
    """True for every element of dx or dresidual that `convention` does not explain, (n_rows, hidden_size)."""
    _refuse(problem, values)
    stored = values.to(torch_dtype(problem.dtype_of(which)))
    wrong = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
    for start, stop in row_chunks(problem.forward):
        rows = GradientRows(problem.rows(start, stop))
        wrong[start:stop] = _outside(rows, stored[start:stop], convention, which)[1]
    return wrong


def dx_interval(
    problem: GradientProblem, convention: DxConvention, which: str = "dx"
) -> tuple[Tensor, Tensor]:
    """The lowest and highest allowed value of every element under `convention`, float64, values of its dtype.

    Where the formula gives NaN or Inf both ends are that.
    """
    ends = []
    for start, stop in row_chunks(problem.forward):
        ends.append(finite_ends(_interval(GradientRows(problem.rows(start, stop)), convention, which)))
    if not ends:
        return problem.forward.x.clone(), problem.forward.x.clone()
    low, high = zip(*ends, strict=True)
    return torch.cat(low), torch.cat(high)


def _refuse(problem: GradientProblem, values: Tensor) -> None:
    shape = tuple(problem.forward.x.shape)
    if tuple(values.shape) != shape or values.dtype != torch.float64:
        raise ValueError(
            f"values is {tuple(values.shape)} {values.dtype}, but should be a float64 copy of shape {shape}"
        )


def _interval(rows: GradientRows, convention: DxConvention, which: str) -> Interval:
    norm, total = convention.roundings(rows.problem)
    return dx_interval_of(
        rows.dx_parts(convention),
        dtype=rows.problem.dtype_of(which),
        norm_dtype=norm,
        total_dtype=total,
    )


def _outside(
    rows: GradientRows, stored: Tensor, convention: DxConvention, which: str
) -> tuple[Interval, Tensor]:
    """The interval, and True for every element outside it after special values have had their say."""
    found = _interval(rows, convention, which)
    inside = (found.low <= stored) & (stored <= found.high)
    if bool(inside.all()):
        return found, ~inside
    inside |= rows.unjudged(convention.norm_input)
    inside |= found.centre.isnan() & stored.isnan()
    inside |= found.centre.isinf() & (found.centre == stored)
    # Where the row sum is an Inf, some forms meet Inf * 0 or Inf - Inf on the way.
    inside |= rows.has_infinity(convention) & stored.isnan()
    return found, ~inside


class _Look:
    """What is told of the best convention: what violates it, the share of the allowed error used, notes."""

    def __init__(
        self, problem: GradientProblem, values: Tensor, stored: Tensor, convention: DxConvention, which: str
    ) -> None:
        self.problem, self.values, self.stored = problem, values, stored
        self.convention, self.which = convention, which
        self.tally = Tally()
        self.compared = self._unjudged = self._infinite = 0

    def over(self, n_rows: int) -> _Look:
        """Look at the first rows, up to the end of a chunk."""
        for start, stop in row_chunks(self.problem.forward):
            if start >= n_rows:
                break
            rows = GradientRows(self.problem.rows(start, stop))
            self.add(rows, *_outside(rows, self.stored[start:stop], self.convention, self.which), start, stop)
        return self

    def add(self, rows: GradientRows, found: Interval, outside: Tensor, start: int, stop: int) -> None:
        values, dtype = self.values[start:stop], self.problem.dtype_of(self.which)
        self.tally.add(found, values, outside, dtype, start)
        unjudged = rows.unjudged(self.convention.norm_input)
        judged = int((~unjudged).sum())
        self.compared += judged * self.problem.hidden_size
        self._unjudged += stop - start - judged
        self._infinite += int((rows.has_infinity(self.convention) & ~unjudged).sum())
        stored = self.stored[start:stop]
        excused = ~((found.low <= stored) & (stored <= found.high) | outside)
        used = self._share(rows, found, values, excused | unjudged, dtype)
        self.tally.share = max(self.tally.share, used)

    @property
    def notes(self) -> tuple[str, ...]:
        notes = []
        if self._unjudged:
            notes.append(
                f"{self._unjudged} rows not judged: fp32 cannot hold what their gradient needs on the way"
            )
        if self._infinite:
            notes.append(f"{self._infinite} rows with an Inf: NaN was accepted beside it")
        return tuple(notes)

    def _share(
        self, rows: GradientRows, found: Interval, values: Tensor, left_out: Tensor, dtype: str
    ) -> float:
        parts = rows.dx_parts(self.convention)
        norm_dtype, total_dtype = self.convention.roundings(rows.problem)
        error, rounding = dx_error(parts), half_spacing(values, found.centre, dtype)
        if norm_dtype is not None:
            rounding += ulp(parts.first - parts.second, norm_dtype).mul_(0.5)
            rounding += values.abs() * (2.0 * U)  # where something is added, it is in fp32
        elif parts.added is not None:
            error += added_error(parts, parts.first - parts.second, error)
        if total_dtype is not None:
            rounding += ulp(values, total_dtype).mul_(0.5)
        return share_of(values, found.centre, rounding, error, left_out)
