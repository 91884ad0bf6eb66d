"""Trying wrong formulas on a wrong gradient: which hold all of it, and which of those fits best.

As for y (`trial`): a candidate holds where the interval of its formula contains every element, for one
reading of what correct kernels differ in. It is screened first on a few wrong rows and columns, at first
without regard to the readings, all of which a tolerance of some roundings covers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from conformance.diagnosing.gradient_candidates import dweight_candidates, dx_candidates
from conformance.diagnosing.gradient_candidates.measured import measured_dweight, measured_dx
from conformance.diagnosing.gradient_candidates.sums import measured
from conformance.diagnosing.gradient_columns import Columns, DweightCandidate, Reading, Sum, column_chunks
from conformance.diagnosing.gradient_rows import DxCandidate, Form, Rows, Setting
from conformance.diagnosing.trial import believed, inside, spread
from conformance.numerics.conventions import row_chunks
from conformance.numerics.gradient_conventions import GradientProblem, dx_conventions
from conformance.numerics.gradient_intervals import DxParts, dx_interval_of
from conformance.numerics.intervals import Interval, U, bound
from conformance.numerics.rounding import MANTISSA, store, torch_dtype, ulp

_SCREENED_ROWS = 3
_SCREENED_COLUMNS = 192
_SCREENED_TERMS = 1 << 18
_MEASURED_ROWS, _MEASURED = 32, 1 << 15  # rows and elements that a number is read off
_FEWEST_COLUMNS = 16  # of which it can be told that their errors have nothing in common
_SIGMAS = 4.0


def roughness(problem: GradientProblem, own: str) -> float:
    """The relative room that covers every rounding which correct kernels differ in."""
    p = problem.forward
    stored = [own, p.x_dtype] + ([p.residual_dtype] if p.fused else [])
    stored += [p.weight_dtype] if p.weight is not None else []
    return 4.0 * 2.0 ** -min(MANTISSA[dtype] for dtype in stored) + 16.0 * bound(p.hidden_size)


@dataclass
class DxTrial:
    """A wrong dx or dresidual: `wrong` (n_rows, hidden_size) bool says where, `judged` (n_rows,) which rows a
    formula is tried on."""

    problem: GradientProblem
    which: str
    values: Tensor
    wrong: Tensor
    judged: Tensor

    def matching(self) -> list[tuple[DxCandidate, bool]]:
        """Every candidate that holds, and whether it is to be believed; see `trial.believed`."""
        return believed(self._held(dx_candidates(self.problem)) or self._held(self._measured()))

    def _measured(self) -> Iterable[DxCandidate]:
        """Formulas with a number that is read off dx."""
        suspects = (self.wrong.any(-1) & self.judged).nonzero()[:, 0]
        index = spread(suspects, max(3, min(_MEASURED_ROWS, _MEASURED // self.problem.hidden_size)))
        if self.problem.dy is None:
            return ()
        setting = next(iter(Rows(self.problem, index).settings()))
        return measured_dx(setting, self.values[index], self.dtype)

    def _held(self, candidates: Iterable[DxCandidate]) -> list[tuple[DxCandidate, float]]:
        """Those that hold, each with its misfit."""
        found = []
        for candidate in candidates:
            if not self._resembles(candidate):
                continue
            misfits = [
                self._misfit(candidate, setting, variant, roundings)
                for setting in self.settings
                for variant, form in enumerate(candidate.build(setting))
                for roundings in self.roundings
                if self._holds(candidate, form.columns(self.columns), self.screened_values, roundings)
            ]
            held = [m for m in misfits if m is not None]
            if held:
                found.append((candidate, min(held)))
        return found

    @cached_property
    def dtype(self) -> str:
        return self.problem.dtype_of(self.which)

    @cached_property
    def roundings(self) -> tuple[tuple[str | None, str | None], ...]:
        """What the norm's part and the total are rounded to on the way, in every right way."""
        ways = [c.roundings(self.problem) for c in dx_conventions(self.problem, self.which)]
        return tuple(dict.fromkeys(ways))

    @cached_property
    def screened(self) -> Rows:
        suspects = (self.wrong.any(-1) & self.judged).nonzero()[:, 0]
        return Rows(self.problem, spread(suspects, _SCREENED_ROWS))

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Those of the screened rows, which keep what was computed once."""
        return tuple(self.screened.settings())

    @cached_property
    def columns(self) -> Tensor:
        wrong = self.wrong[self.screened.index]
        return screened_columns(wrong.any(0), _SCREENED_COLUMNS)

    @cached_property
    def screened_values(self) -> Tensor:
        return self.values[self.screened.index][:, self.columns]

    def _resembles(self, candidate: DxCandidate) -> bool:
        """Whether any variant of it comes near, in the first setting, on the screened rows and columns."""
        rough = roughness(self.problem, self.dtype)
        for form in candidate.build(self.settings[0]):
            some = form.columns(self.columns)
            size = some.first.abs() + some.second.abs() + some.second_scale
            size = size if some.added is None else size + some.added.abs()
            room = (rough + 8.0 * some.relative) * size + 2.0 * ulp(some.centre, self.dtype)
            near = _near(self.screened_values, some.centre, room, self.dtype)
            if some.known is not None:
                near |= ~some.known
            if bool(near.all()):
                return True
        return False

    def _interval(
        self, candidate: DxCandidate, form: Form, roundings: tuple[str | None, str | None]
    ) -> Interval:
        parts = DxParts(form.first, form.second, form.second_scale, form.relative, form.added, cost=2.0)
        norm, total = roundings
        if candidate.last is None:
            return dx_interval_of(parts, dtype=self.dtype, norm_dtype=norm, total_dtype=total)
        found = dx_interval_of(parts, dtype="float32", norm_dtype=norm, total_dtype=total)
        low, high = (candidate.last(t.to(torch.float64), self.dtype) for t in (found.low, found.high))
        return Interval(found.centre, low, high)

    def _holds(
        self, candidate: DxCandidate, form: Form, values: Tensor, roundings: tuple[str | None, str | None]
    ) -> bool:
        held = inside(self._interval(candidate, form, roundings), values, self.dtype)
        if form.known is not None:
            held |= ~form.known
        return bool(held.all())

    def _misfit(
        self,
        candidate: DxCandidate,
        setting: Setting,
        variant: int,
        roundings: tuple[str | None, str | None],
    ) -> float | None:
        """How badly the formula fits, if it holds in every row and says anything about a wrong element; else
        None."""
        explains, misfit = False, 0.0
        for start, stop in row_chunks(self.problem.forward):
            index = self.judged[start:stop].nonzero()[:, 0] + start
            if not len(index):
                continue
            form = next(islice(candidate.build(setting.other_rows(index)), variant, None))
            values, wrong = self.values[index], self.wrong[index]
            if not self._holds(candidate, form, values, roundings):
                return None
            explains |= bool((wrong if form.known is None else wrong & form.known).any())
            misfit += self._deviation(form, values)
        return misfit if explains else None

    def _deviation(self, form: Form, values: Tensor) -> float:
        """The sum of squared distances from the formula's value, in units of the rounding noise."""
        size = torch.maximum(form.first.abs(), form.second.abs())
        noise = ulp(torch.maximum(size, form.centre.abs()), self.dtype) + size * U
        # A statistic that may round either way leaves more room than fp32 arithmetic: that room is no misfit.
        room = (torch.as_tensor(form.relative) - 2.0 * bound(size.shape[-1])).clamp_min(0.0) * size
        off = ((values - form.centre).abs() - room).clamp_min_(0.0)
        squared = (off / noise).square_().mul_(12.0).nan_to_num_(0.0, 0.0, 0.0)
        return float((squared if form.known is None else squared * form.known).sum())


@dataclass
class DweightTrial:
    """A wrong dweight, (hidden_size,): `wrong` bool says where. leading: the leading dimensions of x."""

    problem: GradientProblem
    values: Tensor
    wrong: Tensor
    leading: tuple[int, ...] = ()

    def matching(self) -> list[tuple[DweightCandidate, bool]]:
        """Every candidate that holds, and whether it is to be believed; see `trial.believed`."""
        found = self._held(dweight_candidates(self.problem, self.leading))
        return believed(found or self._held(self._measured()))

    def _held(self, candidates: Iterable[DweightCandidate]) -> list[tuple[DweightCandidate, float]]:
        """Those that hold, each with its misfit."""
        found = []
        for candidate in candidates:
            if not self._resembles(candidate) or (candidate.noise and not self._unsystematic):
                continue
            misfits = [
                self._misfit(candidate, reading, variant)
                for reading in self.readings
                for variant, one in enumerate(candidate.build(reading))
                if self._holds(one, self.screened.index)
            ]
            held = [m for m in misfits if m is not None]
            if held:
                found.append((candidate, min(held)))
        return found

    @cached_property
    def _unsystematic(self) -> bool:
        """Whether the errors look like those of roundings: no common factor, not of one sign, and
        not such that each column by itself is right by some reading."""
        right = self.readings[0].whole().centre
        count, off = len(right), self.values - right
        if count < _FEWEST_COLUMNS or not bool(off.isfinite().all()):
            return False
        total = right.square().sum()
        factor = (off * right).sum() / total
        noise = ((off - factor * right) * right).square().sum().sqrt() / total
        changed = off != 0
        grown = (off[changed].sign() == right[changed].sign()).to(torch.float64).sum()
        lopsided = (grown - changed.sum() / 2.0).abs() > _SIGMAS * 0.5 * float(changed.sum()) ** 0.5
        held = torch.zeros_like(self.wrong)
        for reading in self.readings:
            held |= inside(self._interval(reading.whole()), self.values, self.problem.dweight_dtype)
        return bool(factor.abs() <= _SIGMAS * noise) and not bool(lopsided) and not bool(held.all())

    def _measured(self) -> Iterable[DweightCandidate]:
        reading, dtype = self.readings[0], self.problem.dweight_dtype
        right, values = reading.summed(), self.values[self.screened.index]
        room = roughness(self.problem, dtype) * right.scale + 2.0 * ulp(values, dtype)
        yield from measured(reading, values, room)
        if self.problem.forward.n_rows * len(values) <= _SCREENED_TERMS:
            yield from measured_dweight(reading, values)

    @cached_property
    def shared(self) -> dict[str, Any]:
        return {}

    @cached_property
    def screened(self) -> Columns:
        most = min(_SCREENED_COLUMNS, max(8, _SCREENED_TERMS // self.problem.forward.n_rows))
        return Columns(self.problem, screened_columns(self.wrong, most), self.shared)

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Those of the screened columns, which keep what was computed once."""
        return tuple(self.screened.readings())

    def _resembles(self, candidate: DweightCandidate) -> bool:
        dtype = self.problem.dweight_dtype
        rough, values = roughness(self.problem, dtype), self.values[self.screened.index]
        for one in candidate.build(self.readings[0]):
            room = rough * one.scale + (one.high - one.low) + 2.0 * ulp(one.centre, dtype)
            room = room if one.stray is None else room + one.stray
            near = _near(values, one.centre, room, dtype)
            if one.known is not None:
                near |= ~one.known
            if bool(near.all()):
                return True
        return False

    def _interval(self, one: Sum) -> Interval:
        dtype = self.problem.dweight_dtype
        return Interval(one.centre, store(one.low, dtype), store(one.high, dtype))

    def _holds(self, one: Sum, index: Tensor) -> bool:
        values, dtype = self.values[index], self.problem.dweight_dtype
        held = inside(self._interval(one), values, dtype)
        if one.stray is not None and float(held.to(torch.float64).mean()) >= one.most:
            held = inside(self._interval(one.widened(one.stray)), values, dtype)
        if one.known is not None:
            held |= ~one.known
        return bool(held.all())

    def _misfit(self, candidate: DweightCandidate, reading: Reading, variant: int) -> float | None:
        explains, misfit, dtype = False, 0.0, self.problem.dweight_dtype
        for index in column_chunks(self.problem):
            here = Reading(
                reading.columns.other(index), reading.norm_input, reading.rounds_x_hat, reading.rounds_product
            )
            one = next(islice(candidate.build(here), variant, None))
            if not self._holds(one, index):
                return None
            wrong = self.wrong[index]
            explains |= bool((wrong if one.known is None else wrong & one.known).any())
            noise = ulp(one.centre, dtype) + one.scale * U
            room = (
                (one.high - one.low) / 2.0 - one.scale * 2.0 * bound(self.problem.forward.n_rows)
            ).clamp_min(0.0)
            off = ((self.values[index] - one.centre).abs() - room).clamp_min(0.0) / noise
            squared = off.square().mul(12.0).nan_to_num(0.0, 0.0, 0.0)
            misfit += float((squared if one.known is None else squared * one.known).sum())
        return misfit if explains else None


def _near(values: Tensor, centre: Tensor, room: Tensor, dtype: str) -> Tensor:
    """Whether values may be centre but for `room`; of what is not finite nothing is known here."""
    largest = torch.finfo(torch_dtype(dtype)).max
    overflows = values.isinf() & (values.sign() == centre.sign()) & (centre.abs() + room >= largest)
    return ((values - centre).abs() <= room) | overflows | ~centre.isfinite()


def screened_columns(wrong: Tensor, most: int) -> Tensor:
    """Up to about `most` columns: the ends, wrong ones, and some between; wrong (columns,) bool."""
    every = torch.arange(len(wrong), device=wrong.device)
    if len(every) <= most:
        return every
    bad = wrong.nonzero()[:, 0]
    ends = max(1, most // 12)
    return torch.unique(
        torch.cat([every[:ends], every[-ends:], spread(every, most // 3), spread(bad, most // 2)])
    )
