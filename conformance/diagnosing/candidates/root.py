"""Faults of the root and of the divisor."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Candidate, Rows, by_statistic, power_of_two, up_to_multiple
from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import Parts

ORDER = 53

_ROOT, _DIVISOR = "FORMULA-ROOT", "FORMULA-DIVISOR"


def _shifted(squares: Tensor, rows: Rows) -> Tensor:
    return squares.mean(-1, keepdim=True) + rows.eps


def candidates(problem: Problem) -> Iterator[Candidate]:
    yield from _divisors(problem)
    yield by_statistic(
        "no_root",
        _ROOT,
        "the root is missing: rows are divided by the mean square",
        lambda squares, rows: 1.0 / _shifted(squares, rows),
    )
    yield by_statistic(
        "divides_by_rrms",
        _ROOT,
        "rows are multiplied by the root mean square, or divided by its reciprocal",
        lambda squares, rows: _shifted(squares, rows).sqrt(),
    )
    yield by_statistic(
        "fourth_root",
        _ROOT,
        "the root is taken twice",
        lambda squares, rows: _shifted(squares, rows) ** -0.25,
    )
    yield by_statistic(
        "mean_absolute",
        _ROOT,
        "rows are divided by the mean of |x|, not by the root of the mean of its square",
        lambda squares, rows: 1.0 / (squares.sqrt().mean(-1, keepdim=True) + rows.eps),
    )
    yield by_statistic(
        "largest_absolute",
        _ROOT,
        "rows are divided by their largest |x|",
        lambda squares, rows: 1.0 / (squares.amax(-1, keepdim=True).sqrt() + rows.eps),
    )
    yield by_statistic(
        "not_normalised",
        _ROOT,
        "rows are not normalised at all, only multiplied by the weight",
        lambda squares, rows: torch.ones_like(squares[:, :1]),
    )
    yield Candidate("normalised_twice", _ROOT, "rows are normalised twice", _twice, compound=True)


def _twice(rows: Rows) -> Iterator[Parts]:
    for numerator, squares in rows.squares:
        rrms = 1.0 / _shifted(squares, rows).sqrt()
        for weight in (None, rows.weight):
            first = numerator * rrms if weight is None else numerator * rrms * weight
            second = 1.0 / _shifted(first * first, rows).sqrt()
            # The error of the first root is normalised away by the second.
            yield rows.parts(first, second, product_error=3.0)


def _divisors(problem: Problem) -> Iterator[Candidate]:
    size = problem.hidden_size
    divisors = {
        size - 1: "hidden_size - 1",
        size + 1: "hidden_size + 1",
        power_of_two(size): "the next power of two",
        power_of_two(size + 1) // 2: "the power of two below",
        1: "1: the sum of squares is not divided",
        problem.n_rows: "the number of rows",
        2 * size: "twice hidden_size",
        max(1, size // 2): "half of hidden_size",
    }
    for multiple in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
        divisors.setdefault(
            up_to_multiple(size, multiple), f"hidden_size rounded up to a multiple of {multiple}"
        )
        if size >= multiple:
            divisors.setdefault(
                size - size % multiple, f"hidden_size rounded down to a multiple of {multiple}"
            )
    divisors.pop(size, None)
    divisors.pop(0, None)
    for divisor, text in divisors.items():

        def rrms(squares: Tensor, rows: Rows, divisor: int = divisor) -> Tensor:
            return 1.0 / (squares.sum(-1, keepdim=True) / divisor + rows.eps).sqrt()

        sentence = f"the sum of squares is divided by {divisor}, not by {size}: {text}"
        yield by_statistic(f"divisor_{divisor}", _DIVISOR, sentence, rrms)
    yield by_statistic(
        "divisor_counts_nonzero",
        _DIVISOR,
        "the sum of squares is divided by the number of elements that are not zero",
        lambda squares, rows: (
            1.0
            / (
                squares.sum(-1, keepdim=True) / (squares != 0).sum(-1, keepdim=True).clamp_min(1) + rows.eps
            ).sqrt()
        ),
    )
