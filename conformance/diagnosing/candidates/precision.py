"""Faults of precision: squares, sums or the statistic kept in 16 bits; values clamped or passed through
another dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Candidate, Rows, power_of_two
from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import Parts, U, bound
from conformance.numerics.rounding import nearest, store, store_outward

ORDER = 110

_STEPS = {
    "squares": "the squares",
    "total": "the sum of squares",
    "mean": "the mean square",
    "shifted": "mean square + eps",
    "root": "the root",
    "rrms": "the reciprocal root",
}
_TOGETHER = [
    (
        "squares",
        "mean",
        "shifted",
        "rrms",
    ),  # every operation of x.pow(2).mean(-1).add(eps).rsqrt() in x's dtype
    ("mean", "shifted", "rrms"),
    ("mean", "shifted"),
    ("mean", "rrms"),
    ("shifted", "rrms"),
    ("squares", "total"),
    ("squares", "mean"),
    ("squares", "rrms"),
    ("squares", "total", "mean", "shifted", "rrms"),
    ("squares", "total", "mean", "shifted", "root", "rrms"),
]
_LARGEST_HALF = 65504.0


def candidates(problem: Problem) -> Iterator[Candidate]:
    size = problem.x if problem.residual is None else problem.x + problem.residual
    size = size.abs().nan_to_num(0.0, 0.0, 0.0)
    largest = float(size.max())
    for dtype in ("float16", "bfloat16"):
        yield from _kept_in(dtype, size, dtype == problem.x_dtype)
    for divisor in (16, 256, 1024):
        yield Candidate(
            f"squares_scaled_{divisor}",
            "RANGE-SMALL",
            f"x is divided by {divisor} and squared in float16, where small squares vanish",
            partial(_scaled_squares, divisor=divisor),
            statistic_only=True,
            compound=True,
        )
    if largest > _LARGEST_HALF:
        yield Candidate(
            "clamped_to_half",
            "RANGE-LARGE",
            "x is clamped to the range of float16",
            partial(_changed, change=lambda t: t.clamp(-_LARGEST_HALF, _LARGEST_HALF)),
        )
    for dtype in ("bfloat16", "float16"):
        yield Candidate(
            f"input_through_{dtype}",
            "ACCURACY-INTERVAL",
            f"the input passes through {dtype}",
            partial(_changed, change=partial(nearest, dtype=dtype)),
        )
        if dtype != problem.y_dtype:
            yield Candidate(
                f"output_through_{dtype}",
                "ACCURACY-INTERVAL",
                f"y passes through {dtype} before it is stored as {problem.y_dtype}",
                lambda rows: rows.right(),
                last=partial(_store_through, dtype),
            )
    yield Candidate(
        "truncated",
        "ACCURACY-ROUNDING",
        f"y is truncated toward zero when it is stored as {problem.y_dtype}",
        lambda rows: rows.right(),
        last=partial(store, truncating=True),
    )
    yield Candidate(
        "rounded_outward",
        "ACCURACY-BIAS",
        "y is rounded away from zero",
        lambda rows: rows.right(),
        last=store_outward,
    )


def _store_through(dtype: str, t: Tensor, final: str) -> Tensor:
    return store(nearest(t, dtype), final)


def _kept_in(dtype: str, size: Tensor, native: bool) -> Iterator[Candidate]:
    """Which of the steps are rounded to `dtype`: one alone, then all combinations where it is the tensors'
    own."""
    half = dtype == "float16"
    large = half and float(size.square().sum(-1).max()) > _LARGEST_HALF
    small = half and bool(((size.amax(-1) > 0) & (size.amax(-1) < 2.0**-7)).any())
    kept: list[tuple[str, ...]] = [(name,) for name in _STEPS]
    if native:
        kept += _TOGETHER
    for steps in kept:
        requirement = "ACCURACY-SUM" if {"squares", "total"} & set(steps) else "ACCURACY-RRMS"
        if large and {"squares", "total"} & set(steps):
            requirement = "RANGE-LARGE"
        elif small and "squares" in steps:
            requirement = "RANGE-SMALL"
        words = [_STEPS[s] for s in steps]
        told = ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]
        verb = "is" if len(steps) == 1 and steps[0] != "squares" else "are"
        yield Candidate(
            f"{'_'.join(steps)}_in_{dtype}",
            requirement,
            f"{told} {verb} rounded to {dtype}",
            partial(_chain, dtype=dtype, steps=steps),
            statistic_only=True,
            compound=len(steps) > 1,
        )
    for name, order, text in (
        ("halves", _halves, "folding halves"),
        ("pairs", _pairs, "adding pairs"),
    ):
        for squares_too in (True, False):
            yield Candidate(
                f"sum_of_{name}_in_{dtype}{'' if squares_too else '_exact_squares'}",
                "RANGE-LARGE" if large else "ACCURACY-SUM",
                f"squares are added up in {dtype} ({text})",
                partial(_added_in, dtype=dtype, order=order, squares_too=squares_too),
                statistic_only=True,
            )


def _chain(rows: Rows, dtype: str, steps: tuple[str, ...]) -> Iterator[Parts]:
    def kept(t: Tensor, step: str) -> Tensor:
        return nearest(t, dtype) if step in steps else t

    # An fp32 sum is uncertain by twice B(N), and may round either way: both ends go through the same monotone
    # steps.
    fuzz = 2.0 * bound(rows.hidden_size)
    for numerator, squares in rows.squares:
        total = kept(squares, "squares").sum(-1, keepdim=True)
        ends = []
        for factor in (1.0 - fuzz, 1.0 + fuzz):
            mean = kept(kept(total * factor, "total") / rows.hidden_size, "mean")
            root = kept(kept(mean + rows.eps, "shifted").sqrt(), "root")
            ends.append(kept(1.0 / root, "rrms"))
        yield _between(rows, numerator, *ends)


def _between(rows: Rows, numerator: Tensor, first: Tensor, second: Tensor) -> Parts:
    middle = (first + second) / 2.0
    spread = torch.where(first == second, 0.0, (first - second).abs() / 2.0 / middle)
    return rows.parts(numerator, middle, relative=spread + 8.0 * U)


def _added_in(
    rows: Rows, dtype: str, order: Callable[[Tensor, str], Tensor], squares_too: bool
) -> Iterator[Parts]:
    for numerator, squares in rows.squares:
        total = order(nearest(squares, dtype) if squares_too else squares, dtype)
        rrms = 1.0 / (total / rows.hidden_size + rows.eps).sqrt()
        yield rows.parts(numerator, rrms, relative=8.0 * U)


def _padded(squares: Tensor) -> Tensor:
    return torch.nn.functional.pad(squares, (0, power_of_two(squares.shape[1]) - squares.shape[1]))


def _halves(squares: Tensor, dtype: str) -> Tensor:
    partial = _padded(squares)
    while partial.shape[1] > 1:
        half = partial.shape[1] // 2
        partial = nearest(partial[:, :half] + partial[:, half:], dtype)
    return partial


def _pairs(squares: Tensor, dtype: str) -> Tensor:
    partial = _padded(squares)
    while partial.shape[1] > 1:
        partial = nearest(partial[:, ::2] + partial[:, 1::2], dtype)
    return partial


def sequential(squares: Tensor, dtype: str) -> Tensor:
    """The sum of every row, added column by column and rounded to `dtype` each time: exact, but slow."""
    total = torch.zeros_like(squares[:, 0])
    for column in squares.unbind(-1):
        total = nearest(total + column, dtype)
    return total[:, None]


def _scaled_squares(rows: Rows, divisor: int) -> Iterator[Parts]:
    for numerator, source in rows.sources:
        small = nearest(source / divisor, "float16")
        mean = nearest(small * small, "float16").mean(-1, keepdim=True) * float(divisor) ** 2
        yield rows.parts(numerator, 1.0 / (mean + rows.eps).sqrt())


def _changed(rows: Rows, change: Callable[[Tensor], Tensor]) -> Iterator[Parts]:
    """The input changed where it is scaled, where it is measured, or both."""
    for numerator, source in rows.sources:
        for scaled, measured in ((True, True), (True, False), (False, True)):
            power = (change(source) if measured else source).square().mean(-1, keepdim=True)
            yield rows.parts(change(numerator) if scaled else numerator, 1.0 / (power + rows.eps).sqrt())
