"""The base grade: the specification's allclose, against the formula in float64 on the stored inputs.

    |y - expected| <= atol + rtol * |expected|      fp16 1e-3, bf16 1e-2, fp32 1e-5, for both

The literal formula in x's dtype is never the reference: in fp16 it overflows. Kinds are compared first, and a
comparison that NaN makes false fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.numerics.conventions import Problem
from conformance.numerics.elements import Wrong, first_wrong
from conformance.numerics.intervals import statistic
from conformance.numerics.oracle import effective_weight
from conformance.numerics.rounding import store

TOLERANCE = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-5, "float64": 1e-5}
"""atol and rtol by the dtype of y. torch.allclose(atol=1e-5), the specification's fp32 rule, has rtol 1e-5 by
default."""


@dataclass(frozen=True)
class BaseVerdict:
    """ok: no judged element differs by more than allowed, and there was one to judge."""

    ok: bool
    compared: int
    count: int
    wrong: tuple[Wrong, ...] = ()


def base_grade(problem: Problem, y: Tensor) -> BaseVerdict:
    """Judge y, (n_rows, hidden_size) float64 holding exact values of y_dtype, against the exact-sum formula.

    NaN and Inf rows, and rows whose mean square overflows fp32, follow the rules of the strict grade.
    """
    source = problem.x if problem.residual is None else problem.x + problem.residual
    stat = statistic(source, problem.eps, fused=problem.fused)
    weight = effective_weight(problem.weight, problem.weight_offset)
    expected = source * stat.rrms
    if weight is not None:
        expected = expected * weight
    tolerance = TOLERANCE[problem.y_dtype]
    allowed = tolerance + tolerance * expected.abs()
    right = (y - expected).abs() <= allowed
    if not bool(right.all()):
        beyond = store(expected + torch.copysign(allowed, expected), problem.y_dtype).to(torch.float64)
        right |= y.isinf() & (y == beyond)
        right |= expected.isnan() & y.isnan()
        right |= stat.infinite & y.isnan()
        right |= stat.unjudged
    count = int((~right).sum())
    compared = int((~stat.unjudged).sum()) * problem.hidden_size

    def describe(index: tuple[int, ...]) -> Wrong:
        middle, width = float(expected[index]), float(allowed[index])
        return Wrong(index, float(y[index]), middle, middle - width, middle + width)

    return BaseVerdict(count == 0 and compared > 0, compared, count, tuple(first_wrong(~right, describe)))
