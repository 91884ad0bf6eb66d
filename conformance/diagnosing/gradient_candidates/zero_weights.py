"""Faults of an x_hat that is recovered from y, as y / weight: NaN or noise where the weight is small."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.gradient_columns import DweightCandidate, Reading, Sum
from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting, Source
from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.intervals import U
from conformance.numerics.rounding import nearest

ORDER = 168

_WEIGHTS = "DWEIGHT-ZERO-WEIGHTS"
_ZERO = {"nan": "", "zero": ", and 0 where the weight is 0"}


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    if problem.dy is None or problem.forward.weight is None:
        return
    for name, words in _ZERO.items():
        sentence = f"dx takes x_hat from y / weight{words}"
        yield DxCandidate(f"dx_x_hat_from_y_{name}", _WEIGHTS, sentence, partial(_dx, guarded=name == "zero"))


def dweight_candidates(problem: GradientProblem, leading: tuple[int, ...]) -> Iterator[DweightCandidate]:
    for name, words in _ZERO.items():
        sentence = f"dweight takes x_hat from y / weight{words}"
        build = partial(_dweight, guarded=name == "zero")
        yield DweightCandidate(f"dweight_x_hat_from_y_{name}", _WEIGHTS, sentence, build)


def _dx(s: Setting, guarded: bool) -> Iterator[Form]:
    weight, p = s.rows.weight, s.rows.problem.forward
    assert weight is not None
    for two in (False, True):
        x_hat, error = _recovered(
            s.source.x_hat, weight, s.source.relative, p.x_dtype, p.y_dtype, two, guarded
        )
        # An x_hat of its own in place of h * rrms: its error differs from column to column.
        h = x_hat / s.source.rrms
        form = s.jacobian(source=Source(h, s.source.mean, s.source.rrms, s.source.relative))
        room = s.source.rrms * (error * (x_hat * s.a).mean(-1, keepdim=True).abs()
                                + x_hat.abs() * (error * s.a.abs()).mean(-1, keepdim=True))  # fmt: skip
        scale = 3.0 * s.source.relative + U
        yield Form(form.first, form.second, form.second_scale + room / scale, form.relative, form.added)


def _dweight(r: Reading, guarded: bool) -> Iterator[Sum]:
    weight, p = r.columns.weight, r.columns.problem.forward
    assert weight is not None
    lost = weight == 0
    yield r.summed(torch.where(lost, 0.0 if guarded else torch.nan, r.x_hat))  # y was not rounded yet
    for two in (False, True):
        x_hat, error = _recovered(r.x_hat, weight, r.statistic.relative, p.x_dtype, p.y_dtype, two, guarded)
        yield r.summed(x_hat).widened((error * r.columns.dy.abs()).sum(0))


def _recovered(
    x_hat: Tensor, weight: Tensor, relative: Tensor, x_dtype: str, y_dtype: str, two: bool, guarded: bool
) -> tuple[Tensor, Tensor]:
    """(y / weight, how far it may be off): y is stored, and where it may round either way both count."""
    ends = []
    for factor in (1.0 - relative, 1.0 + relative):
        first = nearest(x_hat * factor, x_dtype) if two else x_hat * factor
        ends.append(nearest(first * weight, y_dtype) / weight)
    middle, error = (ends[0] + ends[1]) / 2.0, (ends[0] - ends[1]).abs() / 2.0
    if guarded:
        middle, error = (torch.where(weight == 0, 0.0, t) for t in (middle, error))
    return middle, error
