"""Trying candidates on a wrong y: which formulas hold all of it, and which of those fits best.

A candidate holds where the interval of its formula contains y in every row, for one rounding convention. It
is screened first, on a few wrong rows and columns. Several may hold where little is wrong: then they are
ranked by how far y lies from each formula's real value, in units of the rounding noise, which uses every
element and tells apart what intervals cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Candidate, Rows
from conformance.diagnosing.candidates import all_candidates
from conformance.diagnosing.row_factor import Factors, factors
from conformance.numerics.conventions import Problem, row_chunks
from conformance.numerics.intervals import SMALLEST_NORMAL, Interval, Parts, bound, interval_of
from conformance.numerics.rounding import nearest, torch_dtype, ulp

_SCREENED_ROWS = 3
_SCREENED_COLUMNS = 192
_TIE = 4.0
"""Sums of squared deviations, in units of the rounding variance, that differ by less tell nothing."""
_CLEAR = 25.0
"""By so much, five sigma, a compound fault must fit better than a simple one."""


@dataclass
class Trial:
    """A wrong y: `wrong` (n_rows, hidden_size) bool says where, `judged` (n_rows,) which rows a formula is
    tried on."""

    problem: Problem
    y: Tensor
    wrong: Tensor
    judged: Tensor

    def matching(self) -> list[tuple[Candidate, bool]]:
        """Every candidate that holds, and whether it is to be believed: it fits as well as the best, and no
        simpler one does. The believed come first, and both are in the order of the rank of what they
        break."""
        found = []
        for candidate in all_candidates(self.problem):
            if candidate.statistic_only and not self.by_factors:
                continue
            misfits = [
                self._misfit(candidate, variant, two)
                for variant, parts in enumerate(candidate.build(self.screened))
                for two in (False, True)
                if self._may_hold(candidate, parts, two)
            ]
            held = [m for m in misfits if m is not None]
            if held:
                found.append((candidate, min(held)))
        return believed(found)

    @cached_property
    def screened(self) -> Rows:
        suspects = (self.wrong.any(-1) & self.judged).nonzero()[:, 0]
        return Rows(self.problem, self.y, spread(suspects, _SCREENED_ROWS))

    @cached_property
    def columns(self) -> Tensor:
        """Columns to screen on: the ends, wrong ones, and some between."""
        wrong = self.wrong[self.screened.index]
        every = torch.arange(wrong.shape[1], device=wrong.device)
        if len(every) <= _SCREENED_COLUMNS:
            return every
        bad = wrong.any(0).nonzero()[:, 0]
        return torch.unique(torch.cat([every[:16], every[-16:], spread(every, 64), spread(bad, 96)]))

    @cached_property
    def factors(self) -> dict[tuple[int, bool], Factors]:
        sources = range(len(self.screened.squares))
        return {(i, two): factors(self.screened, i, two) for i in sources for two in (False, True)}

    @cached_property
    def by_factors(self) -> bool:
        """Whether the screened rows can be right but for a factor each."""
        return any(f.possible for f in self.factors.values())

    def _may_hold(self, candidate: Candidate, parts: Parts, two: bool) -> bool:
        rows = self.screened
        # Most candidates change rrms alone, and the factors of the rows tell at once which rrms y can be
        # from.
        ordinary = parts.added is None and parts.known is None and candidate.last is None
        if ordinary and parts.weight is rows.weight and parts.rrms.shape[-1] == 1:
            for i, (numerator, _) in enumerate(rows.squares):
                if parts.numerator is numerator and not self.factors[i, two].allow(
                    parts.rrms, parts.relative
                ):
                    return False
        return self._holds(candidate, _some_columns(parts, self.columns), rows.y[:, self.columns], two)

    def _misfit(self, candidate: Candidate, variant: int, two: bool) -> float | None:
        """How badly the formula fits, if it holds in every row and says anything about a wrong element; else
        None."""
        explains, misfit = False, 0.0
        for start, stop in row_chunks(self.problem):
            index = self.judged[start:stop].nonzero()[:, 0] + start
            if not len(index):
                continue
            rows = Rows(self.problem, self.y, index)
            parts = next(islice(candidate.build(rows), variant, None))
            if not self._holds(candidate, parts, rows.y, two):
                return None
            wrong = self.wrong[index]
            explains |= bool((wrong if parts.known is None else wrong & parts.known).any())
            if candidate.last is None:
                misfit += self._deviation(parts, rows.y, two)
        return misfit if explains else None

    def _deviation(self, parts: Parts, y: Tensor, two: bool) -> float:
        value = parts.numerator * parts.rrms
        if two:
            value = nearest(value, self.problem.x_dtype)
        if parts.weight is not None:
            value = value * parts.weight
        if parts.added is not None:
            value = value + parts.added
        # A statistic that may round either way leaves more room than fp32 arithmetic: that room is no misfit.
        room = (parts.relative - 2.0 * bound(self.problem.hidden_size)) * value.abs()
        off = ((y - value).abs() - room.clamp_min(0.0)).clamp_min_(0.0)
        squared = (off / ulp(value, self.problem.y_dtype)).square_() * 12.0
        squared = squared.nan_to_num_(0.0, 0.0, 0.0)
        return float((squared if parts.known is None else squared * parts.known).sum())

    def _holds(self, candidate: Candidate, parts: Parts, y: Tensor, two: bool) -> bool:
        """Whether the formula's interval holds every element of y that the formula says anything about."""
        p = self.problem
        found = interval_of(
            parts, rounds_x_hat=two, x_dtype=p.x_dtype, y_dtype=p.y_dtype, last=candidate.last
        )
        held = inside(found, y, p.y_dtype)
        if parts.known is not None:
            held |= ~parts.known
        return bool(held.all())


class Compound(Protocol):
    """A candidate of any kind, as far as ranking looks at it."""

    @property
    def compound(self) -> bool: ...


C = TypeVar("C", bound=Compound)


def believed(found: list[tuple[C, float]]) -> list[tuple[C, bool]]:
    """The candidates that hold, each with its misfit, in the order of the rank of what they break: those that
    fit as well as the best come first, marked True, and a compound one only where no simple one does."""
    best = min((misfit for _, misfit in found), default=0.0)
    best_simple = min((misfit for c, misfit in found if not c.compound), default=float("inf"))
    simple = best_simple <= best + _CLEAR
    limit = (best_simple if simple else best) + _TIE
    told = [(c, misfit <= limit and not (simple and c.compound)) for c, misfit in found]
    return sorted(
        told, key=lambda pair: not pair[1]
    )  # which keeps the order of ranks among those that fit alike


def inside(found: Interval, y: Tensor, dtype: str) -> Tensor:
    """True for every element of y, exact values of `dtype`, that its interval holds; kinds match kinds."""
    stored = y.to(torch_dtype(dtype))
    held = (found.low <= stored) & (stored <= found.high)
    centre = found.centre
    held |= (centre == y) | (centre.isnan() & y.isnan())
    return held | ((y == 0) & (centre.abs() < SMALLEST_NORMAL))


def _some_columns(parts: Parts, columns: Tensor) -> Parts:
    def some(t: Tensor) -> Tensor:
        return t if t.shape[-1] == 1 else t[..., columns]

    def if_any(t: Tensor | None) -> Tensor | None:
        return None if t is None else some(t)

    relative = some(parts.relative) if isinstance(parts.relative, Tensor) else parts.relative
    return Parts(
        parts.numerator[:, columns],
        some(parts.rrms),
        if_any(parts.weight),
        relative,
        parts.product_error,
        if_any(parts.added),
        parts.added_to_stored,
        if_any(parts.slack),
        if_any(parts.known),
    )


def spread(items: Tensor, count: int) -> Tensor:
    """Up to `count` of the items, the first and the last among them, evenly spread."""
    at = torch.linspace(0, len(items) - 1, min(count, len(items)), device=items.device)
    return items[at.round().to(torch.int64)]
