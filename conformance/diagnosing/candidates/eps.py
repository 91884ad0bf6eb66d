"""Faults of eps: outside the root, ignored, another value, a floor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Candidate, Rows, by_statistic
from conformance.numerics.conventions import Problem
from conformance.numerics.rounding import MANTISSA, nearest

ORDER = 50

_INSIDE, _HONOURED = "FORMULA-EPS-INSIDE", "FORMULA-EPS-HONOURED"
_FIXED = (1e-6, 1e-5, 1e-8, 1e-12, 1e-3, 1e-4, 1e-7)


def _mean(squares: Tensor) -> Tensor:
    return squares.mean(-1, keepdim=True)


def candidates(problem: Problem) -> Iterator[Candidate]:
    eps = problem.eps
    source = problem.x if problem.residual is None else problem.x + problem.residual
    lowest = float(_mean(source.square()).nan_to_num(torch.inf).min())
    yield by_statistic(
        "eps_outside",
        _INSIDE,
        "eps is added to the root, not to the mean square under it",
        lambda squares, rows: 1.0 / (_mean(squares).sqrt() + rows.eps),
    )
    yield by_statistic(
        "eps_added_to_rrms",
        _INSIDE,
        "eps is added to the reciprocal root, not to the mean square under it",
        lambda squares, rows: 1.0 / _mean(squares).sqrt() + rows.eps,
    )
    if lowest < eps:  # above it, a floor is the same as no eps
        yield by_statistic(
            "eps_as_floor",
            _INSIDE,
            "eps is a lower limit of the mean square, not added to it",
            lambda squares, rows: 1.0 / _mean(squares).clamp_min(rows.eps).sqrt(),
        )
    yield by_statistic(
        "eps_omitted",
        _HONOURED,
        "eps is left out",
        lambda squares, rows: 1.0 / _mean(squares).sqrt(),
    )
    yield by_statistic(
        "eps_in_the_sum",
        _HONOURED,
        "eps is added to the sum of squares, before it is divided by hidden_size",
        lambda squares, rows: 1.0 / (_mean(squares) + rows.eps / rows.hidden_size).sqrt(),
    )
    if lowest < eps * eps:
        yield by_statistic(
            "eps_as_floor_of_root",
            _INSIDE,
            "eps is a lower limit of the root mean square, not added to the mean square",
            lambda squares, rows: 1.0 / _mean(squares).sqrt().clamp_min(rows.eps),
        )
    yield from _other_values(eps, problem.x_dtype)


def _other_values(eps: float, dtype: str) -> Iterator[Candidate]:
    values = {
        "eps_squared": (eps * eps, "eps is squared"),
        "eps_in_dtype": (
            float(nearest(torch.tensor(eps, dtype=torch.float64), dtype)),
            f"eps is rounded to {dtype}",
        ),
        "eps_x10": (eps * 10.0, "eps is ten times too large"),
        "eps_div10": (eps / 10.0, "eps is ten times too small"),
        "eps_twice": (eps * 2.0, "eps is added twice"),
        "eps_half": (eps / 2.0, "eps is halved"),
        "eps_root": (math.sqrt(eps) if eps > 0 else eps, "the root of eps is added"),
        "eps_subtracted": (-eps, "eps is subtracted"),
    }
    for value in _FIXED:
        values[f"eps_{value:g}"] = (value, f"eps is {value:g}, whatever is passed")
    for name in ("float16", "bfloat16", "float32", "float64"):
        machine = 2.0 ** -MANTISSA[name]
        values[f"eps_of_{name}"] = (machine, f"eps is {machine:.3g}, the machine epsilon of {name}")
    tried = {eps}
    for name, (value, sentence) in values.items():
        if value in tried:
            continue
        tried.add(value)

        def rrms(squares: Tensor, rows: Rows, value: float = value) -> Tensor:
            return 1.0 / (_mean(squares) + value).sqrt()

        yield by_statistic(name, _HONOURED, f"{sentence} (passed: {eps:g})", rrms)
