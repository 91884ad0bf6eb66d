"""Why y is wrong: every known wrong formula that gives exactly this y, and which elements are wrong.

Only inputs and outputs are looked at. A candidate matches when the interval of its formula holds all of y, in
every row and for one rounding convention, by the same rule that the right formula is judged by. Nothing is
reported of a y that the right formula explains, so a candidate that equals it on these inputs never is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from conformance.accuracy import Explanation, explain, wrong_elements
from conformance.candidate import Candidate, Rows
from conformance.candidates import all_candidates
from conformance.conventions import Problem, row_chunks
from conformance.intervals import SMALLEST_NORMAL, Interval, Parts, interval_of, statistic
from conformance.oracle import norm_source
from conformance.rounding import torch_dtype
from conformance.row_factor import row_factors
from conformance.special_rows import special_matches
from conformance.structure import describe

_SCREENED_ROWS = 3
_SCREENED_COLUMNS = 192


@dataclass(frozen=True)
class Match:
    """A wrong formula that gives this y: the fields of a `model.Finding.candidates` entry."""

    name: str
    requirement: str
    sentence: str


@dataclass(frozen=True)
class Diagnosis:
    """matches: the wrong formulas that give this y, the lowest rank first. structure: sentences that say
    which elements are wrong. Both are empty for a y that the right formula explains."""

    matches: tuple[Match, ...] = ()
    structure: tuple[str, ...] = ()


def diagnose(problem: Problem, y: Tensor, found: Explanation | None = None) -> Diagnosis:
    """Find what explains y, (n_rows, hidden_size) float64 with exact values of y_dtype, if the right formula
    does not.

    `found`: what `accuracy.explain` said of it, if that is at hand.
    """
    found = found or explain(problem, y)
    if found.explained or y.numel() == 0:
        return Diagnosis()
    wrong = wrong_elements(problem, y, found.best)
    structure = describe(problem, y, wrong, found.best)
    special = [Match(*m) for m in special_matches(problem, y, wrong)]
    judged = _judged(problem)
    suspects = (wrong.any(-1) & judged).nonzero()[:, 0]
    if not len(suspects):
        return Diagnosis(tuple(special), structure)
    matches = [
        Match(c.name, c.requirement, c.sentence) for c in _matching(problem, y, wrong, judged, suspects)
    ]
    matches = matches or special
    if not matches:
        match, told = row_factors(problem, y, judged)
        matches = [Match(*m) for m in match]
        structure += told
    return Diagnosis(tuple(matches), structure)


def _judged(problem: Problem) -> Tensor:
    """Rows that a formula can be tried on, (n_rows,): finite ones, whose mean square fp32 can hold."""
    judged = torch.ones(problem.n_rows, dtype=torch.bool, device=problem.x.device)
    for start, stop in row_chunks(problem):
        part = problem.rows(start, stop)
        source = norm_source(part.x, part.residual, "exact_sum", part.residual_dtype)[1]
        stat = statistic(source, part.eps, fused=part.fused)
        # A vanishing mean square is nothing special to a wrong formula; a NaN, an Inf or an overflow is.
        judged[start:stop] = (
            source.isfinite().all(-1) & ~(stat.unjudged & (source.abs() > 1.0).any(-1, keepdim=True))[:, 0]
        )
    return judged


def _matching(
    problem: Problem, y: Tensor, wrong: Tensor, judged: Tensor, suspects: Tensor
) -> Iterator[Candidate]:
    """Candidates that hold for every judged row, after a screening on a few rows and columns."""
    rows = Rows(problem, y, _spread(suspects, _SCREENED_ROWS))
    columns = _columns(wrong[rows.index])
    for candidate in all_candidates(problem):
        if any(
            _holds(problem, candidate, parts, rows.y, two, columns)
            and _holds_everywhere(problem, y, judged, wrong, candidate, variant, two)
            for variant, parts in enumerate(candidate.build(rows))
            for two in (False, True)
        ):
            yield candidate


def _holds_everywhere(
    problem: Problem, y: Tensor, judged: Tensor, wrong: Tensor, candidate: Candidate, variant: int, two: bool
) -> bool:
    explains = False
    for start, stop in row_chunks(problem):
        index = judged[start:stop].nonzero()[:, 0] + start
        if not len(index):
            continue
        rows = Rows(problem, y, index)
        parts = next(islice(candidate.build(rows), variant, None))
        if not _holds(problem, candidate, parts, rows.y, two):
            return False
        known = wrong[index] if parts.known is None else wrong[index] & parts.known
        explains |= bool(known.any())
    return explains


def _holds(
    problem: Problem, candidate: Candidate, parts: Parts, y: Tensor, two: bool, columns: Tensor | None = None
) -> bool:
    """Whether the formula's interval holds every element of y, or every one in `columns`."""
    if columns is not None:
        y, parts = y[:, columns], _some_columns(parts, columns)
    found = interval_of(
        parts, rounds_x_hat=two, x_dtype=problem.x_dtype, y_dtype=problem.y_dtype, last=candidate.last
    )
    inside = _inside(found, y, problem.y_dtype)
    if parts.known is not None:
        inside |= ~parts.known
    return bool(inside.all())


def _inside(found: Interval, y: Tensor, dtype: str) -> Tensor:
    stored = y.to(torch_dtype(dtype))
    inside = (found.low <= stored) & (stored <= found.high)
    centre = found.centre
    inside |= (centre == y) | (centre.isnan() & y.isnan())
    return inside | ((y == 0) & (centre.abs() < SMALLEST_NORMAL))


def _some_columns(parts: Parts, columns: Tensor) -> Parts:
    def some(t: Tensor | None) -> Tensor | None:
        return t if t is None or t.shape[-1] == 1 else t[..., columns]

    return Parts(
        parts.numerator[:, columns],
        some(parts.rrms),  # type: ignore[arg-type]
        some(parts.weight),
        some(parts.relative) if isinstance(parts.relative, Tensor) else parts.relative,  # type: ignore[arg-type]
        parts.product_error,
        some(parts.added),
        parts.added_to_stored,
        some(parts.slack),
        some(parts.known),
    )


def _spread(items: Tensor, count: int) -> Tensor:
    """Up to `count` of the items, the first and the last among them, evenly spread."""
    at = torch.linspace(0, len(items) - 1, min(count, len(items)), device=items.device)
    return items[at.round().to(torch.int64)]


def _columns(wrong: Tensor) -> Tensor:
    """Columns to screen on: the ends, wrong ones, and some between."""
    size = wrong.shape[1]
    if size <= _SCREENED_COLUMNS:
        return torch.arange(size, device=wrong.device)
    every = torch.arange(size, device=wrong.device)
    parts = [every[:16], every[-16:], _spread(every, 64), _spread(wrong.any(0).nonzero()[:, 0], 96)]
    return torch.unique(torch.cat(parts))
