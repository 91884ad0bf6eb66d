"""Which rounding convention explains an output: every element of y inside the interval of ONE convention.

`explain` judges y in the strict grade. Kinds (NaN, +Inf, -Inf) are matched before numbers; what section 8.9
of the accuracy rule leaves open is accepted here and noted: a 0 or a NaN beside an Inf, results flushed to
zero, rows whose mean square overflows fp32. tests/test_accuracy.py shows for every dtype and convention that
the last value inside passes and the next one outside fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from conformance.numerics import shares
from conformance.numerics.base_grade import BaseVerdict, base_grade
from conformance.numerics.conventions import Convention, Problem, candidates_for, conventions, row_chunks
from conformance.numerics.elements import SHOWN, Wrong, first_wrong
from conformance.numerics.intervals import (
    SMALLEST_NORMAL,
    Interval,
    Parts,
    Statistic,
    bound,
    finite_ends,
    interval,
    interval_of,
    source_of,
    statistic,
    weight_of,
)
from conformance.numerics.residual_out import ResidualVerdict, RrmsVerdict, residual_exact, rrms_ok
from conformance.numerics.rounding import store, torch_dtype, ulp
from conformance.numerics.statistics import statistics

__all__ = [
    "BaseVerdict", "Convention", "Explanation", "Problem", "ResidualVerdict", "RrmsVerdict", "Worst", "Wrong",
    "base_grade", "belongs", "bound", "conventions", "explain", "interval", "residual_exact", "rrms_ok",
    "statistics", "wrong_elements",
]  # fmt: skip

_FLUSHED = SMALLEST_NORMAL * (
    1.0 + 2.0**-10
)  # what an fp32 result just under 2**-126 may have been before rounding


@dataclass(frozen=True)
class Worst:
    """What the best convention leaves unexplained: how many elements, and the one furthest outside."""

    convention: str
    count: int
    element: Wrong
    ulps: float  # distance from the interval in ulps of y_dtype; inf where the kind differs


@dataclass(frozen=True)
class Explanation:
    """What `explain` found.

    conventions: names of those that explain every element, empty where none does; the truncating ones are
    named only where no nearest-even one explains y. compared: elements judged; 0 is never a pass. best: the
    first explaining convention, or the one with fewest violations. share: the largest share of the allowed
    real error used, under `best`, over finite elements (`conformance.numerics.shares`); 1.0 is the edge of
    the interval, 0.0 also where y truncates. notes: what was accepted and is worth a mention.
    """

    conventions: tuple[str, ...]
    compared: int
    best: Convention
    share: float = 0.0
    worst: Worst | None = None
    wrong: tuple[Wrong, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def explained(self) -> bool:
        return bool(self.conventions) and self.compared > 0

    @property
    def truncating(self) -> bool:
        """Explained by truncating conventions alone."""
        return self.explained and self.best.truncating


@dataclass
class _Tally:
    """What is gathered about one convention over the chunks."""

    violations: int = 0
    shown: list[Wrong] = field(default_factory=list)
    worst: Wrong | None = None
    ulps: float = -1.0


def explain(problem: Problem, y: Tensor) -> Explanation:
    """Try the conventions on y, (n_rows, hidden_size) float64 holding the exact values of y_dtype.

    Raises ValueError where y has another shape or dtype: the caller compares those first.
    """
    if y.shape != problem.x.shape or y.dtype != torch.float64:
        raise ValueError(
            f"y is {tuple(y.shape)} {y.dtype}, but should be a float64 copy of shape {tuple(problem.x.shape)}"
        )
    tried = candidates_for(problem)
    if y.numel() == 0:
        return Explanation((), 0, tried[0], notes=("zero elements were compared",))
    stored = y.to(torch_dtype(problem.y_dtype))
    alive = _alive(problem, stored, [c for c in tried if not c.truncating])
    if not alive:
        alive = _alive(problem, stored, [c for c in tried if c.truncating])
    best = alive[0] if alive else _nearest_miss(problem, stored, tried)
    tally, share, notes, compared = _look(problem, y, stored, best)
    names = tuple(c.name for c in alive)
    if alive or tally.worst is None:
        return Explanation(names, compared, best, share, notes=notes)
    worst = Worst(best.name, tally.violations, tally.worst, tally.ulps)
    return Explanation((), compared, best, share, worst, tuple(tally.shown), notes)


def belongs(problem: Problem, y: Tensor, convention: Convention) -> bool:
    """Whether every element of y, float64 (n_rows, hidden_size), lies inside the interval of this one
    convention.

    With the rules for special values; True for zero elements, which `explain` never takes for a pass.
    """
    return bool(_alive(problem, y.to(torch_dtype(problem.y_dtype)), [convention]))


def wrong_elements(problem: Problem, y: Tensor, convention: Convention) -> Tensor:
    """True for every element of y that `convention` does not explain, (n_rows, hidden_size) bool."""
    stored = y.to(torch_dtype(problem.y_dtype))
    wrong = torch.zeros(y.shape, dtype=torch.bool, device=y.device)
    for start, stop in row_chunks(problem):
        chunk = _Chunk(problem, stored, start, stop)
        wrong[start:stop] = _violations(chunk, convention, chunk.interval(convention))
    return wrong


def _alive(problem: Problem, stored: Tensor, tried: list[Convention]) -> list[Convention]:
    """The conventions that no element contradicts; stops at the first chunk that contradicts all."""
    alive = list(tried)
    for start, stop in row_chunks(problem):
        chunk = _Chunk(problem, stored, start, stop)
        alive = [c for c in alive if not _violations(chunk, c, chunk.interval(c)).any()]
        if not alive:
            break
    return alive


def _nearest_miss(problem: Problem, stored: Tensor, tried: tuple[Convention, ...]) -> Convention:
    counts = dict.fromkeys(tried, 0)
    for start, stop in row_chunks(problem):
        chunk = _Chunk(problem, stored, start, stop)
        for convention in tried:
            counts[convention] += int(_violations(chunk, convention, chunk.interval(convention)).sum())
        if start == 0 and min(counts.values()) * 20 > stop * problem.hidden_size:
            break  # wrong all over: the first rows are enough to choose what to show
    # Toward zero is a rare reading of an output that nothing explains: it must be twice as near to be shown.
    return min(tried, key=lambda c: counts[c] * (2 if c.truncating else 1))


def _look(
    problem: Problem, y: Tensor, stored: Tensor, best: Convention
) -> tuple[_Tally, float, tuple[str, ...], int]:
    """A pass under one convention: what violates it, the share of the allowed error used, and the notes."""
    tally, share, compared = _Tally(), 0.0, 0
    noted: dict[str, int] = {}
    for start, stop in row_chunks(problem):
        chunk = _Chunk(problem, stored, start, stop)
        found = chunk.interval(best)
        outside = _violations(chunk, best, found)
        share = max(share, _share(chunk, best, found, y[start:stop], outside))
        if bool(outside.any()):
            _gather(tally, chunk, found, y[start:stop], outside)
        stat = chunk.source(best)[1]
        compared += int((~stat.unjudged).sum()) * problem.hidden_size
        if bool((stat.unjudged | stat.infinite).any()):
            _note(noted, stat, y[start:stop])
    notes = tuple(f"{count} {text}" for text, count in noted.items())
    return tally, share, notes, compared


def _note(noted: dict[str, int], stat: Statistic, y: Tensor) -> None:
    rows = {
        "rows not judged: their mean square is beyond what fp32 can hold": stat.unjudged,
        "rows with an Inf: elements beside it came out NaN": stat.infinite & y.isnan().all(-1, keepdim=True),
        "rows with an Inf: elements beside it came out 0": stat.infinite & (y == 0).any(-1, keepdim=True),
    }
    for text, where in rows.items():
        count = int(where.sum())
        if count:
            noted[text] = noted.get(text, 0) + count


class _Chunk:
    """Some rows of a problem, with everything that conventions share computed once."""

    def __init__(self, problem: Problem, stored: Tensor, start: int, stop: int) -> None:
        self.problem = problem.rows(start, stop)
        self.stored = stored[start:stop]
        self.start = start
        self._sources: dict[tuple[str | None, bool], tuple[Tensor, Statistic, Tensor]] = {}

    def source(self, convention: Convention) -> tuple[Tensor, Statistic, Tensor]:
        """numerator, statistic and x_hat."""
        key = (convention.norm_input, convention.truncates_sum)
        if key not in self._sources:
            numerator, source = source_of(self.problem, convention)
            stat = statistic(source, self.problem.eps, fused=self.problem.fused)
            self._sources[key] = numerator, stat, numerator * stat.rrms
        return self._sources[key]

    @cached_property
    def subnormal(self) -> Tensor:
        """Where x, the residual or their sum is an fp32 subnormal."""
        x, residual = self.problem.x, self.problem.residual
        read = [x] if residual is None else [x, residual, x + residual]
        return torch.stack([(t.abs() < SMALLEST_NORMAL) & (t != 0) for t in read]).any(0)

    def parts(self, convention: Convention) -> Parts:
        numerator, stat, _ = self.source(convention)
        weight, product_error = weight_of(self.problem, convention)
        return Parts(numerator, stat.rrms, weight, stat.relative, product_error)

    def interval(self, convention: Convention) -> Interval:
        return interval_of(
            self.parts(convention),
            rounds_x_hat=convention.rounds_x_hat,
            x_dtype=self.problem.x_dtype,
            y_dtype=self.problem.y_dtype,
            truncating=convention.truncates_y,
            x_hat=self.source(convention)[2],
        )


def _violations(chunk: _Chunk, convention: Convention, found: Interval) -> Tensor:
    """True for every element outside, after the special values have had their say."""
    inside = (found.low <= chunk.stored) & (chunk.stored <= found.high)
    if bool(inside.all()):
        return ~inside
    outside = ~inside
    excusable = outside & _special(chunk, convention, found)
    if bool(excusable.any()):
        at = excusable.nonzero(as_tuple=True)
        outside[at] = ~_excused(chunk, convention, found, *at)
    return outside


def _special(chunk: _Chunk, convention: Convention, found: Interval) -> Tensor:
    """Elements that a rule for special values might excuse: cheap to find, and on most wrong outputs there
    are none."""
    stat = chunk.source(convention)[1]
    special = ~found.centre.isfinite()
    special |= chunk.stored == 0
    special |= stat.unjudged | stat.infinite
    return special | chunk.subnormal


def _excused(chunk: _Chunk, convention: Convention, found: Interval, row: Tensor, column: Tensor) -> Tensor:
    """Which of the elements outside their interval are right all the same, by DESIGN's rules for special
    values."""
    numerator, stat, x_hat = chunk.source(convention)
    actual = chunk.stored[row, column].to(torch.float64)
    expected = found.centre[row, column]
    rrms = stat.rrms[row, 0]
    h = numerator[row, column]
    excused = stat.unjudged[row, 0]
    excused = excused | (expected.isnan() & actual.isnan())
    excused |= expected.isinf() & (actual == expected)
    # rrms is 0 beside an Inf: finite elements give 0, or NaN where a kernel meets Inf * 0 on the way.
    excused |= stat.infinite[row, 0] & actual.isnan()
    # A subnormal on any way to the result may have been flushed, and takes the whole product with it.
    hat = x_hat[row, column].abs()
    weight = weight_of(chunk.problem, convention)[0]
    w = torch.ones_like(hat) if weight is None else weight[column].abs()
    least = torch.stack([hat, expected.abs(), w, rrms * w, h.abs() * w, h.abs()]).amin(0)
    excused |= (actual == 0) & (least < _FLUSHED)
    return excused | _flushed_inputs(chunk, found, actual, h, rrms * w, row, column)


def _flushed_inputs(
    chunk: _Chunk,
    found: Interval,
    actual: Tensor,
    h: Tensor,
    gain: Tensor,
    row: Tensor,
    column: Tensor,
) -> Tensor:
    """Subnormal inputs, or a subnormal sum, may have been flushed to zero before they were used."""
    read = [h.abs(), chunk.problem.x[row, column].abs()]
    if chunk.problem.residual is not None:
        read.append(chunk.problem.residual[row, column].abs())
    subnormal = torch.stack([(t > 0) & (t < SMALLEST_NORMAL) for t in read]).sum(0)
    extra = subnormal * SMALLEST_NORMAL * gain
    low = store(found.low[row, column].to(torch.float64) - extra, chunk.problem.y_dtype)
    high = store(found.high[row, column].to(torch.float64) + extra, chunk.problem.y_dtype)
    actual = actual.to(low.dtype)
    return (extra > 0) & (low <= actual) & (actual <= high)


def _share(chunk: _Chunk, convention: Convention, found: Interval, y: Tensor, outside: Tensor) -> float:
    """The largest share of the allowed error that an element needs; what is excused needs none."""
    if convention.truncates_y:
        return 0.0  # a fault of its own, that no share describes
    problem, parts = chunk.problem, chunk.parts(convention)
    if convention.rounds_x_hat:
        x_hat = chunk.source(convention)[2]
        used = shares.twice(parts, x_hat, found, y, problem.x_dtype, problem.y_dtype)
    else:
        used = shares.once(parts, found, y, problem.y_dtype)
    left_out = chunk.source(convention)[1].unjudged.expand_as(y)
    largest = shares.largest(used, left_out)
    if largest > 1.0:
        within = (found.low <= chunk.stored) & (chunk.stored <= found.high)
        largest = shares.largest(used, left_out | ~(within | outside))
    return largest


def _gather(tally: _Tally, chunk: _Chunk, found: Interval, y: Tensor, outside: Tensor) -> None:
    """Count the wrong elements of a chunk; keep the first few and the furthest."""
    tally.violations += int(outside.sum())
    low, high = finite_ends(found)
    distance = torch.maximum(low - y, y - high) / ulp(found.centre, chunk.problem.y_dtype)
    distance = torch.where(outside, torch.where(distance.isfinite(), distance, torch.inf), -1.0)
    furthest = divmod(int(distance.argmax()), y.shape[1])

    def wrong(where: tuple[int, ...]) -> Wrong:
        expected = store(found.centre[where], chunk.problem.y_dtype)
        index = (chunk.start + where[0], where[1])
        return Wrong(index, float(y[where]), float(expected), float(low[where]), float(high[where]))

    if len(tally.shown) < SHOWN:
        tally.shown += first_wrong(outside, wrong, SHOWN - len(tally.shown))
    if float(distance[furthest]) > tally.ulps:
        tally.ulps, tally.worst = float(distance[furthest]), wrong(furthest)
