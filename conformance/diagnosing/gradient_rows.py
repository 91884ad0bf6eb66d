"""Some rows of a gradient problem as wrong formulas see them, and what a wrong formula of dx is.

    dx = first - second + added,   right: first = rrms * a,  second = rrms * x_hat * c,  added = dresidual_out
                                   with a = dy * weight and c = mean(x_hat * a) over the row

A candidate gives this taken apart, once for each `Setting`: for every sum that the backward may have read,
and for a rounded to x's dtype or not, as correct kernels differ in these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.intervals import statistic
from conformance.numerics.oracle import NORM_INPUTS, effective_weight, norm_source
from conformance.numerics.rounding import nearest

EXACT = "exact_sum"


@dataclass(frozen=True)
class Form:
    """dx taken apart, float64, (rows, hidden_size). second_scale: what the error of the row sum in `second`
    scales with. relative: the allowed relative error of rrms, a number or (rows, 1). added: None for nothing.
    known: which elements the formula says anything of, broadcast to (rows, hidden_size), or None for all.
    """

    first: Tensor
    second: Tensor
    second_scale: Tensor
    relative: Tensor | float
    added: Tensor | None = None
    known: Tensor | None = None

    @property
    def centre(self) -> Tensor:
        """The value before any rounding."""
        value = self.first - self.second
        return value if self.added is None else value + self.added

    def columns(self, at: Tensor) -> Form:
        """The columns `at` of the formula alone."""

        def some(t: Tensor) -> Tensor:
            return t if t.shape[-1] == 1 else t[:, at]

        return Form(
            some(self.first), some(self.second), some(self.second_scale), self.relative,
            None if self.added is None else some(self.added),
            None if self.known is None else some(self.known),
        )  # fmt: skip


@dataclass(frozen=True)
class DxCandidate:
    """One wrong formula of dx and dresidual. `requirement` is the id that it breaks; `sentence` says in words
    what the kernel does. build gives the formula in one setting, once for every variant that would count as
    the same fault. last replaces the rounding of the last store, for faults of the store itself. compound:
    believed only where no simpler one fits as well.
    """

    name: str
    requirement: str
    sentence: str
    build: Callable[[Setting], Iterable[Form]]
    last: Callable[[Tensor, str], Tensor] | None = None
    compound: bool = False


@dataclass(frozen=True)
class Source:
    """What the backward takes for the normalised row: h (rows, hidden_size), its statistic (rows, 1)."""

    h: Tensor
    mean: Tensor
    rrms: Tensor
    relative: Tensor

    @cached_property
    def x_hat(self) -> Tensor:
        return self.h * self.rrms


def source_at(problem: GradientProblem, index: Tensor, norm_input: str) -> Source:
    """The source of the rows `index` for one norm_input."""
    p = problem.forward
    residual = None if p.residual is None else p.residual[index]
    h, measured = norm_source(p.x[index], residual, norm_input, p.residual_dtype)
    stat = statistic(measured, p.eps, fused=p.fused)
    return Source(h, measured.square().mean(-1, keepdim=True), stat.rrms, stat.relative)


class Rows:
    """The rows `index` of a problem; computed on first use and kept.

    x, residual, dy, added: (rows, hidden_size) float64; dy is zeros and `added` None where no such gradient
    arrives. weight: the effective one, (hidden_size,) or None. shared: what is computed once for all rows.
    """

    def __init__(self, problem: GradientProblem, index: Tensor, shared: dict[str, Any] | None = None) -> None:
        self.problem, self.index = problem, index
        self._shared: dict[str, Any] = {} if shared is None else shared
        self._sources: dict[str, Source] = {}
        p = problem.forward
        self.x = p.x[index]
        self.residual = None if p.residual is None else p.residual[index]
        self.dy = torch.zeros_like(self.x) if problem.dy is None else problem.dy[index]
        self.added = None if problem.dresidual_out is None else problem.dresidual_out[index]
        self.weight = effective_weight(p.weight, p.weight_offset)
        self.eps, self.hidden_size, self.n_rows = p.eps, p.hidden_size, p.n_rows

    def source(self, norm_input: str) -> Source:
        """What the backward takes for the normalised row, for one norm_input."""
        if norm_input not in self._sources:
            self._sources[norm_input] = source_at(self.problem, self.index, norm_input)
        return self._sources[norm_input]

    def other(self, index: Tensor) -> Rows:
        """Other rows of the same problem."""
        return Rows(self.problem, index, self._shared)

    def once(self, key: str, compute: Callable[[], Any]) -> Any:
        """What `compute` gives, which must not depend on the rows: computed once for a problem."""
        if key not in self._shared:
            self._shared[key] = compute()
        return self._shared[key]

    def settings(self) -> Iterator[Setting]:
        """Every reading of a right backward, the likeliest first."""
        for name in NORM_INPUTS if self.problem.forward.fused else (EXACT,):
            for rounds in (False, True):
                yield Setting(self, name, rounds)


@dataclass(frozen=True)
class Setting:
    """Some rows, read as one right backward reads them: which sum, and whether a is rounded to x's dtype."""

    rows: Rows
    norm_input: str
    rounds_a: bool

    @property
    def source(self) -> Source:
        return self.rows.source(self.norm_input)

    @property
    def rounded(self) -> Callable[[Tensor], Tensor]:
        """The rounding of a."""
        return partial(nearest, dtype=self.rows.problem.forward.x_dtype) if self.rounds_a else _kept

    @cached_property
    def a(self) -> Tensor:
        return self.weighted(self.rows.dy)

    def weighted(self, dy: Tensor) -> Tensor:
        """dy times the weight, as this setting rounds it."""
        weight = self.rows.weight
        return self.rounded(dy if weight is None else dy * weight)

    def jacobian(
        self,
        a: Tensor | None = None,
        *,
        projected: Tensor | None = None,
        source: Source | None = None,
        rrms: Tensor | None = None,
        relative: Tensor | None = None,
    ) -> Form:
        """The right formula, with another a, another source or another rrms in it.

        projected: what stands for a under the mean, where it is another than in the first term.
        """
        source = source or self.source
        r = source.rrms if rrms is None else rrms
        a = self.a if a is None else a
        x_hat = source.h * r
        products = x_hat * (a if projected is None else projected)
        along = r * x_hat
        return Form(
            r * a,
            along * products.mean(-1, keepdim=True),
            along.abs() * products.abs().mean(-1, keepdim=True),
            source.relative if relative is None else relative,
            self.rows.added,
        )

    def other_rows(self, index: Tensor) -> Setting:
        """The same reading of other rows of the problem."""
        return replace(self, rows=self.rows.other(index))


def _kept(t: Tensor) -> Tensor:
    return t
