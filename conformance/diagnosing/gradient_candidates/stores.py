"""Faults of the last store of dx or dresidual: toward zero, or by way of another dtype."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting
from conformance.numerics.gradient_conventions import HALF, GradientProblem
from conformance.numerics.rounding import nearest, store

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


def _right(s: Setting) -> Iterator[Form]:
    yield s.jacobian()


def _through(dtype: str, t: Tensor, final: str) -> Tensor:
    return store(nearest(t, dtype), final)
