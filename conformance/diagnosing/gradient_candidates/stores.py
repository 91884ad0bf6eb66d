"""Faults of the last store of a gradient: toward zero, or, of dx and dresidual, by way of another dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from torch import Tensor

from conformance.diagnosing.gradient_columns import DweightCandidate, Reading, Sum
from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting
from conformance.numerics.gradient_conventions import HALF, GradientProblem
from conformance.numerics.rounding import nearest, store, truncated

ORDER = 180

_ACCURACY = "DX-ACCURACY"


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    toward_zero = partial(store, truncating=True)
    yield DxCandidate(
        "truncated", _ACCURACY, "it is rounded toward zero when it is stored", _right, toward_zero
    )
    for dtype in HALF:
        sentence = f"it passes through {dtype} before it is stored"
        yield DxCandidate(f"through_{dtype}", _ACCURACY, sentence, _right, partial(_through, dtype))


def dweight_candidates(problem: GradientProblem, leading: tuple[int, ...]) -> Iterator[DweightCandidate]:
    dtype = problem.dweight_dtype
    if dtype in HALF:
        sentence = "dweight is rounded toward zero when it is stored"
        cut = partial(_toward_zero, dtype=dtype)
        yield DweightCandidate("dweight_truncated", "DWEIGHT-ACCURACY", sentence, cut)


def _toward_zero(r: Reading, dtype: str) -> Iterator[Sum]:
    right = r.summed()
    yield replace(
        right,
        centre=truncated(right.centre, dtype),
        low=truncated(right.low, dtype),
        high=truncated(right.high, dtype),
    )


def _right(s: Setting) -> Iterator[Form]:
    yield s.jacobian()


def _through(dtype: str, t: Tensor, final: str) -> Tensor:
    return store(nearest(t, dtype), final)
