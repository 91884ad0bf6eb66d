"""Why y is wrong: every known wrong formula that gives exactly this y, and which elements are wrong.

Only inputs and outputs are looked at. A candidate matches when the interval of its formula holds all of y, in
every row and for one rounding convention, by the same rule that the right formula is judged by. Nothing is
reported of a y that the right formula explains, so a candidate that equals it on these inputs never is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conformance.diagnosing import apart
from conformance.diagnosing.row_factor import row_factors
from conformance.diagnosing.special_rows import ZERO_ROW, special_matches
from conformance.diagnosing.structure import describe
from conformance.diagnosing.trial import Trial
from conformance.numerics.accuracy import Explanation, explain, wrong_elements
from conformance.numerics.conventions import Problem, row_chunks
from conformance.numerics.intervals import statistic
from conformance.numerics.oracle import norm_source


@dataclass(frozen=True)
class Match:
    """A wrong formula that gives this y: the fields of a `model.Finding.candidates` entry."""

    name: str
    requirement: str
    sentence: str


@dataclass(frozen=True)
class Diagnosis:
    """What is known of a wrong y; all empty for one that the right formula explains.

    matches: the wrong formulas that give this y, the best fitting first, by rank where they fit alike.
    requirement: what the best fitting ones all break; None where there are none, or where little is wrong and
    they disagree. structure: sentences that say which elements are wrong. notes: which case tells the best
    fitting ones apart, where they are several, or that no known formula gives these values.
    """

    matches: tuple[Match, ...] = ()
    structure: tuple[str, ...] = ()
    requirement: str | None = None
    notes: tuple[str, ...] = ()


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
    return completed(_matched(problem, y, wrong, structure), "y", y, wrong)


def _matched(problem: Problem, y: Tensor, wrong: Tensor, structure: tuple[str, ...]) -> Diagnosis:
    special = [Match(*m) for m in special_matches(problem, y, wrong)]
    judged = judged_rows(problem)
    if not bool((wrong.any(-1) & judged).any()):
        return _told(special, structure)
    matching = Trial(problem, y, wrong, judged).matching()
    matches = [Match(c.name, c.requirement, c.sentence) for c, _ in matching]
    if special and special[0].requirement == ZERO_ROW:
        # A formula may do the same to a row of zeros: what is seen is named before what is supposed.
        return _told(special + matches, structure)
    if matches:
        believed = [c for c, fits in matching if fits]
        best = {c.requirement for c in believed}
        notes = separating([c.name for c in believed], lambda names: apart.of_y(names, problem))
        return Diagnosis(tuple(matches), structure, best.pop() if len(best) == 1 else None, notes)
    if special:
        return _told(special, structure)
    match, told = row_factors(problem, y, judged)
    return _told([Match(*m) for m in match], structure + told)


def _told(matches: list[Match], structure: tuple[str, ...]) -> Diagnosis:
    return Diagnosis(tuple(matches), structure, matches[0].requirement if matches else None)


def separating(names: Sequence[str], told: Callable[[Sequence[str]], str]) -> tuple[str, ...]:
    """The sentence that says which case tells the formulas of these names apart, if any is needed."""
    sentence = told(names) if len(names) > 1 else ""
    return (sentence,) if sentence else ()


def completed(found: Diagnosis, what: str, values: Tensor, wrong: Tensor) -> Diagnosis:
    """The diagnosis, which says so where no formula fits numbers; NaN and Inf are nobody's formula."""
    if found.matches or not bool(values[wrong].isfinite().any()):
        return found
    return replace(found, notes=(f"no known wrong formula gives this {what}",))


def judged_rows(problem: Problem) -> Tensor:
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
