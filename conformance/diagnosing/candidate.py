"""What a known wrong formula is: a name, the requirement it breaks, a sentence, and how to compute it.

A candidate is computed from the inputs alone, as `Parts`, and then judged with the same intervals as the
right formula, for every sum that could have been normalised and for one and two roundings.
`conformance.diagnosing.diagnosis` tries them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import SMALLEST_NORMAL, Parts, U, bound
from conformance.numerics.oracle import NORM_INPUTS, effective_weight, norm_source


@dataclass(frozen=True)
class Candidate:
    """One wrong formula. `requirement` is the id that it breaks; `sentence` says in words what the kernel
    does.

    build gives the formula for some rows, once for every variant that would count as the same fault. `last`
    replaces the rounding of the store of y, for faults of the store itself. statistic_only: nothing but rrms
    is wrong, so every row of y is right but for a factor. compound: more than one fault at once, believed
    only where no simple one fits as well.
    """

    name: str
    requirement: str
    sentence: str
    build: Callable[[Rows], Iterable[Parts]]
    last: Callable[[Tensor, str], Tensor] | None = None
    statistic_only: bool = False
    compound: bool = False


class Rows:
    """Some rows of a problem and their y, as candidates see them; computed on first use and kept.

    index: (rows,) row numbers. x, residual, y: (rows, hidden_size) float64. all_rows is the whole problem,
    for formulas that reach into other rows.
    """

    def __init__(self, problem: Problem, y: Tensor, index: Tensor) -> None:
        self.all_rows = problem
        self.index = index
        self.x = problem.x[index]
        self.residual = None if problem.residual is None else problem.residual[index]
        self.y = y[index]
        self.eps = problem.eps
        self.hidden_size = problem.hidden_size

    @cached_property
    def weight(self) -> Tensor | None:
        return effective_weight(self.all_rows.weight, self.all_rows.weight_offset)

    @cached_property
    def product_error(self) -> float:
        return 2.0 if self.all_rows.weight is not None and self.all_rows.weight_offset else 1.0

    @cached_property
    def sources(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """(numerator, source of the statistic) for every right norm_input."""
        return self.sources_of(self.index)

    def sources_of(self, index: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
        """The same for other rows of the problem, by their numbers."""
        p = self.all_rows
        x, residual = p.x[index], None if p.residual is None else p.residual[index]
        names = NORM_INPUTS if p.fused else ("exact_sum",)
        return tuple(norm_source(x, residual, name, p.residual_dtype) for name in names)

    @cached_property
    def squares(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """(numerator, squares of the source) for every right norm_input."""
        return tuple((numerator, source * source) for numerator, source in self.sources)

    @cached_property
    def totals_of_all(self) -> tuple[Tensor, ...]:
        """Sums of squares of every row of the problem, (n_rows, 1), for every right norm_input."""
        every = torch.arange(self.all_rows.n_rows, device=self.x.device)
        return tuple((s * s).sum(-1, keepdim=True) for _, s in self.sources_of(every))

    def relative(self, rrms: Tensor) -> Tensor:
        """The allowed relative error of x_hat for fp32 arithmetic, as for the right formula."""
        base = bound(self.hidden_size) + (U if self.residual is not None else 0.0)
        total = rrms.square().reciprocal().nan_to_num(SMALLEST_NORMAL).clamp_min(SMALLEST_NORMAL)
        return base + 1.5 * SMALLEST_NORMAL / total

    def parts(self, numerator: Tensor, rrms: Tensor, **changes: object) -> Parts:
        """A formula with the right weight and the usual error, except for `changes` (fields of Parts)."""
        fields: dict[str, object] = {
            "weight": self.weight,
            "relative": self.relative(rrms),
            "product_error": self.product_error,
        }
        return Parts(numerator, rrms, **{**fields, **changes})  # type: ignore[arg-type]

    def right(self, **changes: object) -> Iterator[Parts]:
        """The right formula with `changes`, for every norm_input."""
        for numerator, squares in self.squares:
            mean = squares.mean(-1, keepdim=True)
            yield self.parts(numerator, 1.0 / torch.sqrt(mean + self.eps), **changes)


def by_statistic(
    name: str, requirement: str, sentence: str, rrms: Callable[[Tensor, Rows], Tensor]
) -> Candidate:
    """A candidate whose only fault is its rrms, given from the squares (rows, hidden_size)."""

    def build(rows: Rows) -> Iterator[Parts]:
        for numerator, squares in rows.squares:
            yield rows.parts(numerator, rrms(squares, rows))

    return Candidate(name, requirement, sentence, build, statistic_only=True)


def by_total(name: str, requirement: str, sentence: str, total: Callable[[Tensor], Tensor]) -> Candidate:
    """A candidate whose only fault is its sum of squares, (rows, 1), given from the squares."""
    return by_statistic(
        name,
        requirement,
        sentence,
        lambda squares, rows: 1.0 / torch.sqrt(total(squares) / rows.hidden_size + rows.eps),
    )


def by_weight(
    name: str, requirement: str, sentence: str, weight: Callable[[Tensor, Rows], Tensor | None]
) -> Candidate:
    """A candidate whose only fault is its effective weight, given from the right one."""

    def build(rows: Rows) -> Iterator[Parts]:
        if rows.weight is not None:
            yield from rows.right(weight=weight(rows.weight, rows), product_error=2.0)

    return Candidate(name, requirement, sentence, build)


def up_to_multiple(length: int, of: int) -> int:
    """The smallest multiple of `of` that is at least `length`."""
    return -(-length // of) * of


def power_of_two(length: int) -> int:
    """The smallest power of two that is at least `length`."""
    return 1 << max(0, length - 1).bit_length()
