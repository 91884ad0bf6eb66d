"""residual_out and rrms: the two outputs with a rule of their own.

residual_out is one addition, so nothing is tolerated: it equals the fp32 sum rounded to nearest even, bit for
bit. Adding in fp32 and rounding, and adding in T with one rounding, give the same bits (24 >= 2p + 2 for bf16
and fp16), and so does the float64 sum rounded to fp32 (53 >= 2 * 24 + 2). A saved rrms is allowed B(N), like
x_hat.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.numerics.conventions import Problem
from conformance.numerics.elements import Wrong, first_wrong
from conformance.numerics.intervals import SMALLEST_NORMAL, statistic
from conformance.numerics.oracle import norm_source
from conformance.numerics.rounding import nearest, truncated


@dataclass(frozen=True)
class ResidualVerdict:
    """status: exact, truncated (rounded toward zero everywhere), or wrong. `wrong` lists the first elements
    that are not the nearest-even sum, also for a truncated tensor; `count` says how many there are of
    `compared`."""

    status: str
    compared: int
    count: int
    wrong: tuple[Wrong, ...] = ()

    @property
    def exact(self) -> bool:
        return self.status == "exact" and self.compared > 0


def residual_exact(problem: Problem, residual_out: Tensor, dtype: str) -> ResidualVerdict:
    """Judge residual_out, (n_rows, hidden_size) float64 holding exact values of `dtype`.

    NaN matches any NaN, the sign of a zero is not compared, and a subnormal input or result may have been
    flushed to zero. Raises ValueError for a plain problem or another shape.
    """
    if problem.residual is None:
        raise ValueError("the problem has no residual, but residual_out was given; judge it as a fused op")
    if residual_out.shape != problem.x.shape:
        raise ValueError(
            f"residual_out has shape {tuple(residual_out.shape)}, but should be {tuple(problem.x.shape)}"
        )
    x, residual = problem.x, problem.residual
    expected = nearest(x + residual, dtype)
    differs = ~_same(residual_out, expected)
    if bool(differs.any()):
        flushed = nearest(_flush(x) + _flush(residual), dtype)
        differs &= ~_same(residual_out, flushed)
        differs &= ~((residual_out == 0) & (expected.abs() < SMALLEST_NORMAL))
    count = int(differs.sum())
    if count == 0:
        return ResidualVerdict("exact", residual_out.numel(), 0)

    def describe(index: tuple[int, ...]) -> Wrong:
        right = float(expected[index])
        return Wrong(index, float(residual_out[index]), right, right, right)

    toward_zero = truncated(x + residual, dtype)
    status = "truncated" if bool(_same(residual_out, toward_zero).all()) else "wrong"
    return ResidualVerdict(status, residual_out.numel(), count, tuple(first_wrong(differs, describe)))


@dataclass(frozen=True)
class RrmsVerdict:
    """ok: every judged row's rrms lies within B(N) of the oracle's, for one choice of norm_input over all
    rows."""

    ok: bool
    compared: int
    count: int
    wrong: tuple[Wrong, ...] = ()


def rrms_ok(problem: Problem, rrms: Tensor) -> RrmsVerdict:
    """Judge a saved rrms, (n_rows,) float64 holding exact fp32 values.

    A row with a NaN has a NaN, a row with an Inf 0 or NaN; rows whose mean square fp32 cannot hold are not
    judged. Raises ValueError for another shape.
    """
    if rrms.shape != (problem.n_rows,):
        raise ValueError(f"rrms has shape {tuple(rrms.shape)}, but should be ({problem.n_rows},)")
    verdicts = []
    for norm_input in ("exact_sum", "rounded_sum") if problem.fused else ("exact_sum",):
        source = norm_source(problem.x, problem.residual, norm_input, problem.residual_dtype)[1]
        stat = statistic(source, problem.eps, fused=problem.fused)
        right, relative, unjudged = stat.rrms[:, 0], stat.relative[:, 0], stat.unjudged[:, 0]
        low, high = (
            nearest(right * (1 - relative), "float32"),
            nearest(right * (1 + relative), "float32"),
        )
        inside = ((low <= rrms) & (rrms <= high)) | unjudged | (right.isnan() & rrms.isnan())
        inside |= stat.infinite[:, 0] & ((rrms == 0) | rrms.isnan())

        def describe(
            index: tuple[int, ...], right: Tensor = right, low: Tensor = low, high: Tensor = high
        ) -> Wrong:
            return Wrong(
                index,
                float(rrms[index]),
                float(right[index]),
                float(low[index]),
                float(high[index]),
            )

        count = int((~inside).sum())
        compared = int((~unjudged).sum())
        verdicts.append(RrmsVerdict(count == 0, compared, count, tuple(first_wrong(~inside, describe))))
    return min(verdicts, key=lambda verdict: verdict.count)


def _same(actual: Tensor, expected: Tensor) -> Tensor:
    return (actual == expected) | (actual.isnan() & expected.isnan())


def _flush(t: Tensor) -> Tensor:
    return torch.where(t.abs() < SMALLEST_NORMAL, 0.0, t)
