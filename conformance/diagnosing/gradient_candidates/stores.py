"""Faults of the last store of a gradient: toward zero, or, of dx and dresidual, by way of another dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from torch import Tensor

from conformance.diagnosing.gradient_columns import DweightCandidate, Reading, Sum
from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting
from conformance.numerics.gradient_conventions import HALF, GradientProblem
from conformance.numerics.intervals import U, bound
from conformance.numerics.rounding import nearest, store, truncated

ORDER = 180

_ACCURACY = "DX-ACCURACY"


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    toward_zero = partial(store, truncating=True)
    yield DxCandidate(
        "truncated", _ACCURACY, "it is rounded toward zero when it is stored", _right, toward_zero
    )
    if problem.dy is not None and problem.forward.x_dtype in HALF:
        sentence = f"dx takes an x_hat that is rounded to {problem.forward.x_dtype}"
        yield DxCandidate("dx_x_hat_rounded", _ACCURACY, sentence, _x_hat_rounded)
        sentence = f"the row mean in dx is rounded to {problem.forward.x_dtype}"
        yield DxCandidate("dx_row_mean_rounded", _ACCURACY, sentence, _row_mean_rounded)
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


def _x_hat_rounded(s: Setting) -> Iterator[Form]:
    """An x_hat that is good to fp32 may round either way."""
    dtype, exact, relative = s.rows.problem.forward.x_dtype, s.source.x_hat, s.source.relative
    low, high = (nearest(exact * f, dtype) for f in (1.0 - relative, 1.0 + relative))
    x_hat, error = (low + high) / 2.0, (high - low).abs() / 2.0
    products, r = x_hat * s.a, s.source.rrms
    form = s.jacobian()
    room = r * (
        error * products.mean(-1, keepdim=True).abs()
        + x_hat.abs() * (error * s.a.abs()).mean(-1, keepdim=True)
    )
    scale = r * x_hat.abs() * products.abs().mean(-1, keepdim=True)
    second = r * x_hat * products.mean(-1, keepdim=True)
    yield replace(form, second=second, second_scale=scale + room / (3.0 * relative + U))


def _row_mean_rounded(s: Setting) -> Iterator[Form]:
    """As above, the mean of what is good to fp32."""
    dtype, products = s.rows.problem.forward.x_dtype, s.source.x_hat * s.a
    mean = products.mean(-1, keepdim=True)
    fuzz = products.abs().mean(-1, keepdim=True) * (s.source.relative + bound(s.rows.hidden_size))
    low, high = nearest(mean - fuzz, dtype), nearest(mean + fuzz, dtype)
    along, form = s.source.rrms * s.source.x_hat, s.jacobian()
    room = along.abs() * (high - low) / 2.0 / (3.0 * s.source.relative + U)
    yield replace(form, second=along * (low + high) / 2.0, second_scale=form.second_scale + room)


def _through(dtype: str, t: Tensor, final: str) -> Tensor:
    return store(nearest(t, dtype), final)
