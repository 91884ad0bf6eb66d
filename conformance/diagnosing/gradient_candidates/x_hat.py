"""Faults of what dweight sums: x or y for x_hat, another power of rrms, a dy that is none any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.gradient_candidates.rrms import statistics
from conformance.diagnosing.gradient_columns import DweightCandidate, Reading, Sum
from conformance.diagnosing.gradient_rows import Rows, Setting
from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.intervals import U, bound
from conformance.numerics.rounding import nearest

ORDER = 164

_X_HAT = "DWEIGHT-XHAT"


def dweight_candidates(problem: GradientProblem, leading: tuple[int, ...]) -> Iterator[DweightCandidate]:
    terms: dict[str, tuple[str, Callable[[Reading], Tensor]]] = {
        "dweight_without_x_hat": ("sums dy alone, without x_hat", lambda r: torch.ones_like(r.columns.dy)),
        "dweight_of_x": ("sums dy * x, without the rrms", lambda r: r.h),
        "dweight_x_hat_squared": ("has a factor of x_hat too many", lambda r: r.x_hat.square()),
        "dweight_x_hat_absolute": ("loses the sign of x_hat", lambda r: r.x_hat.abs()),
        "dweight_negated": ("has the opposite sign", lambda r: -r.x_hat),
        "dweight_of_y": ("sums dy * y, with a factor of the weight", _y),
        "dweight_over_weight": ("sums dy * x_hat / weight", _over_weight),
        "dweight_rrms_twice": ("has rrms squared in it", lambda r: r.x_hat * r.statistic.rrms),
        "dweight_rrms_three_times": ("has rrms cubed in it", lambda r: r.x_hat * r.statistic.rrms.square()),
        "dweight_x_hat_squared_over_rrms": ("sums dy * x * x_hat", lambda r: r.h * r.x_hat),
    }
    for name, (words, x_hat) in terms.items():
        yield DweightCandidate(name, _X_HAT, f"dweight {words}", partial(_with_x_hat, x_hat=x_hat))
    if problem.forward.n_rows > 1:
        for name, words, shift in (("before", "row before", 1), ("after", "row after", -1)):
            sentence = f"dweight multiplies the dy of a row with the x_hat of the {words}"
            yield DweightCandidate(
                f"dweight_x_hat_of_row_{name}", _X_HAT, sentence, partial(_moved, shift=shift)
            )
        sentence = "dweight uses the x_hat of the first row in every row"
        yield DweightCandidate("dweight_x_hat_of_first_row", _X_HAT, sentence, _first_row)
        sentence = "dweight uses the dy of the first row in every row"
        yield DweightCandidate("dweight_dy_of_first_row", _X_HAT, sentence, _dy_of_first_row)
    if problem.forward.fused:
        for which in ("x", "residual"):
            sentence = f"dweight takes x_hat from {which} alone, not from x + residual"
            yield DweightCandidate(f"dweight_from_{which}", _X_HAT, sentence, partial(_alone, which=which))
        sentence = "dweight sums (dy + dresidual_out) * x_hat"
        if problem.dresidual_out is not None:
            yield DweightCandidate("dweight_with_dresidual_out", _X_HAT, sentence, _with_dresidual_out)
    yield DweightCandidate(
        "dweight_from_dx", _X_HAT, "dweight sums dx * x_hat: dx has replaced dy by then", _from_dx
    )
    for name, (sentence, rrms) in statistics(problem).items():
        yield DweightCandidate(
            f"dweight_{name}", _X_HAT, f"in dweight {sentence}", partial(_with_rrms, rrms=rrms)
        )
    for dtype in ("bfloat16", "float16"):
        sentence = f"dweight uses an rrms that is rounded to {dtype}"
        yield DweightCandidate(f"dweight_rrms_in_{dtype}", _X_HAT, sentence, partial(_rounded, dtype=dtype))


def _with_x_hat(r: Reading, x_hat: Callable[[Reading], Tensor]) -> Iterator[Sum]:
    if r.columns.weight is not None:
        yield r.summed(x_hat(r))


def _y(r: Reading) -> Tensor:
    assert r.columns.weight is not None
    return r.x_hat * r.columns.weight


def _over_weight(r: Reading) -> Tensor:
    assert r.columns.weight is not None
    return r.x_hat / r.columns.weight


def _moved(r: Reading, shift: int) -> Iterator[Sum]:
    yield r.summed(r.x_hat.roll(shift, 0))
    kept = r.x_hat[:-1] if shift > 0 else r.x_hat[1:]
    yield r.summed(kept, r.columns.dy[1:] if shift > 0 else r.columns.dy[:-1])


def _first_row(r: Reading) -> Iterator[Sum]:
    yield r.summed(r.x_hat[:1].expand_as(r.columns.dy))


def _dy_of_first_row(r: Reading) -> Iterator[Sum]:
    yield r.summed(dy=r.columns.dy[:1].expand_as(r.columns.dy))


def _alone(r: Reading, which: str) -> Iterator[Sum]:
    p = r.columns.problem.forward
    whole = p.x if which == "x" else p.residual
    assert whole is not None
    h = whole[:, r.columns.index]
    yield r.summed(h * r.statistic.rrms)
    mean = r.columns.once(f"mean square of {which}", lambda: whole.square().mean(-1, keepdim=True))
    yield r.summed(h / (mean + p.eps).sqrt())


def _with_dresidual_out(r: Reading) -> Iterator[Sum]:
    added = r.columns.problem.dresidual_out
    assert added is not None
    yield r.summed(dy=r.columns.dy + added[:, r.columns.index])


def _from_dx(r: Reading) -> Iterator[Sum]:
    """dx in fp32 or as stored, with dresidual_out in it or without; a store may go either way."""
    p, index = r.columns.problem, r.columns.index
    rrms, x_hat = r.statistic.rrms, r.x_hat
    mean = r.columns.once(f"row sums, {r.norm_input}", lambda: _row_sums(r))
    a = r.columns.dy if r.columns.weight is None else r.columns.dy * r.columns.weight
    ds = rrms * (a - x_hat * mean)
    yield r.summed(dy=ds).widened((ds.abs() * r.statistic.relative * x_hat.abs()).sum(0))
    for added in (None, p.dresidual_out):
        dx = nearest(ds if added is None else ds + added[:, index], p.forward.x_dtype)
        room = (
            nearest(dx * (1.0 + 2.0**-8), p.forward.x_dtype) - dx
        ).abs() * 0.02 + ds.abs() * r.statistic.relative
        found = r.summed(dy=dx)
        yield found.widened((room * x_hat.abs()).sum(0))
        if p.dresidual_out is None:
            return


def _row_sums(r: Reading) -> Tensor:
    """c of every row, (n_rows, 1)."""
    problem = r.columns.problem
    rows = max(1, (1 << 20) // problem.forward.hidden_size)
    parts = []
    for index in torch.arange(problem.forward.n_rows, device=r.columns.dy.device).split(rows):
        s = Setting(Rows(problem, index), r.norm_input, False)
        parts.append((s.source.x_hat * s.a).mean(-1, keepdim=True))
    return torch.cat(parts)


def _with_rrms(r: Reading, rrms: Callable[[Tensor], Tensor]) -> Iterator[Sum]:
    yield r.summed(r.h * rrms(r.statistic.mean))


def _rounded(r: Reading, dtype: str) -> Iterator[Sum]:
    """A statistic good to fp32 may round either way: both ends go through the same rounding."""
    fuzz = 2.0 * bound(r.columns.hidden_size)
    low, high = (nearest(r.statistic.rrms * f, dtype) for f in (1.0 - fuzz, 1.0 + fuzz))
    middle = (low + high) / 2.0
    relative = torch.where(low == high, 0.0, (high - low).abs() / 2.0 / middle) + 8.0 * U
    yield r.summed(r.h * middle, relative=relative)
