"""Some columns of a gradient problem as wrong formulas of dweight see them, all rows of them.

    dweight = sum over the rows of dy * x_hat

A candidate gives the values before the last rounding and how far fp32 arithmetic may be off, once for each
`Reading`: for every sum that the backward may have read, x_hat and the product each rounded to x's dtype or
not, as correct kernels differ in these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from conformance.diagnosing.gradient_rows import EXACT, Source, source_at
from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.gradient_intervals import DweightParts, DweightSums
from conformance.numerics.oracle import NORM_INPUTS, effective_weight
from conformance.numerics.rounding import nearest

_CHUNK = 1 << 20  # elements of x that are looked at together


@dataclass(frozen=True)
class Sum:
    """dweight of some columns before its last rounding, float64 (columns,): the value, the lowest and the
    highest that arithmetic in fp32 may give, and scale, the sum of the sizes of the terms. known: which
    columns the formula says anything of, or None for all. stray: how much further off some columns may be,
    as long as the share `most` of them is not; for sums that a rounding which falls the other way changes."""

    centre: Tensor
    low: Tensor
    high: Tensor
    scale: Tensor
    known: Tensor | None = None
    stray: Tensor | None = None
    most: float = 1.0

    def times(self, factor: float | Tensor) -> Sum:
        """All of it multiplied by a number, or by one for each column."""
        ends = torch.stack([self.low * factor, self.high * factor])
        size = abs(factor) if isinstance(factor, float) else factor.abs()
        return Sum(self.centre * factor, ends.amin(0), ends.amax(0), self.scale * size, self.known)

    def plus(self, other: Sum) -> Sum:
        """The sum of both."""
        return Sum(
            self.centre + other.centre, self.low + other.low, self.high + other.high, self.scale + other.scale
        )

    def widened(self, room: Tensor) -> Sum:
        """The same with another error on top, (columns,)."""
        return Sum(self.centre, self.low - room, self.high + room, self.scale, self.known)


@dataclass(frozen=True)
class DweightCandidate:
    """One wrong formula of dweight; the fields are those of `gradient_rows.DxCandidate`."""

    name: str
    requirement: str
    sentence: str
    build: Callable[[Reading], Iterable[Sum]]
    compound: bool = False
    noise: bool = False
    """A bound on unknown roundings, not a formula: it holds only where the errors look like such."""


class Columns:
    """The columns `index` of a problem, every row of them; what is of whole rows is computed once and shared.

    x, dy: (n_rows, columns) float64. weight: the effective one, (columns,) or None.
    """

    def __init__(self, problem: GradientProblem, index: Tensor, shared: dict[str, Any] | None = None) -> None:
        assert problem.dy is not None, "a problem without dy has no dweight to explain"
        self.problem, self.index = problem, index
        self._shared: dict[str, Any] = {} if shared is None else shared
        self.dy = problem.dy[:, index]
        weight = effective_weight(problem.forward.weight, problem.forward.weight_offset)
        self.all_weights = weight
        self.weight = None if weight is None else weight[index]
        self.n_rows, self.hidden_size = problem.forward.n_rows, problem.forward.hidden_size

    def other(self, index: Tensor) -> Columns:
        """Other columns of the same problem."""
        return Columns(self.problem, index, self._shared)

    def once(self, key: str, compute: Callable[[], Any]) -> Any:
        """What `compute` gives, which must not depend on the columns: computed once for a problem."""
        if key not in self._shared:
            self._shared[key] = compute()
        return self._shared[key]

    def statistic(self, norm_input: str) -> Source:
        """Mean square, rrms and its error, (n_rows, 1) each, of all rows; its h is empty."""
        return self.once(f"statistic, {norm_input}", lambda: self._statistic(norm_input))

    def _statistic(self, norm_input: str) -> Source:
        rows = max(1, _CHUNK // self.hidden_size)
        every = torch.arange(self.n_rows, device=self.dy.device)
        parts = [source_at(self.problem, index, norm_input) for index in every.split(rows)]
        return Source(
            self.dy[:, :0], *(torch.cat([getattr(p, f) for p in parts]) for f in ("mean", "rrms", "relative"))
        )

    def readings(self) -> Iterator[Reading]:
        """Every reading of a right dweight, the likeliest first."""
        exact_dtype = self.problem.forward.x_dtype == "float32"
        for norm_input in NORM_INPUTS if self.problem.forward.fused else (EXACT,):
            for rounds_x_hat in (False, True):
                for rounds_product in (False, True):
                    if not exact_dtype or not (rounds_x_hat or rounds_product):
                        yield Reading(self, norm_input, rounds_x_hat, rounds_product)


@dataclass(frozen=True)
class Reading:
    """Some columns, read as one right kernel reads them."""

    columns: Columns
    norm_input: str = EXACT
    rounds_x_hat: bool = False
    rounds_product: bool = False

    @cached_property
    def h(self) -> Tensor:
        """What is normalised, (n_rows, columns)."""
        p, index = self.columns.problem.forward, self.columns.index
        x = p.x[:, index]
        if p.residual is None:
            return x
        total = x + p.residual[:, index]
        return total if self.norm_input == EXACT else nearest(total, p.residual_dtype)

    @property
    def statistic(self) -> Source:
        return self.columns.statistic(self.norm_input)

    @cached_property
    def x_hat(self) -> Tensor:
        return self.h * self.statistic.rrms

    def summed(
        self, x_hat: Tensor | None = None, dy: Tensor | None = None, relative: Tensor | float | None = None
    ) -> Sum:
        """The right sum, with another x_hat, dy, or error of x_hat; each may be of fewer rows than all."""
        x_hat = self.x_hat if x_hat is None else x_hat
        dy = self.columns.dy if dy is None else dy
        relative = self.statistic.relative if relative is None else relative
        if isinstance(relative, Tensor) and len(relative) != len(x_hat):
            relative = float(relative.max())
        sums = DweightSums(
            rounds_x_hat=self.rounds_x_hat, rounds_product=self.rounds_product,
            x_dtype=self.columns.problem.forward.x_dtype,
        )  # fmt: skip
        sums.add(DweightParts(dy, x_hat, relative))
        low, high, centre = sums.ends(self.columns.dy[0] if len(self.columns.dy) else dy.sum(0))
        return Sum(centre, low, high, torch.zeros_like(centre) + sums.scale)

    def whole(self) -> Sum:
        """The right dweight of every column of the problem, not of these alone."""
        return self.columns.once(
            f"whole, {self.norm_input}, {self.rounds_x_hat}, {self.rounds_product}", self._whole
        )

    def _whole(self) -> Sum:
        found = [
            Reading(
                self.columns.other(index), self.norm_input, self.rounds_x_hat, self.rounds_product
            ).summed()
            for index in column_chunks(self.columns.problem)
        ]
        ends = (torch.cat([s.centre for s in found]), torch.cat([s.low for s in found]))
        return Sum(*ends, torch.cat([s.high for s in found]), torch.cat([s.scale for s in found]))


def column_chunks(problem: GradientProblem) -> tuple[Tensor, ...]:
    """All columns, in runs that are few enough to be looked at together with all their rows."""
    p = problem.forward
    every = torch.arange(p.hidden_size, device=p.x.device)
    return every.split(max(1, _CHUNK // max(1, p.n_rows)))
