"""Faults of the rrms of a backward that no list holds: the eps, or the factor, is read off the gradient.

Tried only where no known formula fits. One number is fitted to the screened values by least squares; whether
the formula with that number holds is judged by the same intervals as any other, widened by how well a number
can be read off so many rounded values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.gradient_columns import DweightCandidate, Reading, Sum
from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting
from conformance.numerics.rounding import MANTISSA

ORDER = 190

_FEWEST = 32  # values that a number is read off
_FEWEST_ROWS = 3
_CLEAR = 4.0  # times the error
_EXPONENTS = (-14.0, 1.0)
_GRID = 61
_REFINED = 40
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def measured_dx(setting: Setting, values: Tensor, dtype: str) -> Iterator[DxCandidate]:
    """Candidates fitted to values, dx of the rows of the setting, (rows, hidden_size) stored in dtype."""
    form = setting.jacobian()
    actual = values if form.added is None else values - form.added
    usable = actual.isfinite() & form.centre.isfinite()
    if int(usable.sum()) < _FEWEST:
        return
    error = _readable(dtype, int(usable.sum()))
    right = (form.first - form.second).where(usable, 0.0)
    factor = float((right * actual.where(usable, 0.0)).sum() / right.square().sum().clamp_min(1e-300))
    if abs(factor - 1.0) > _CLEAR * error:
        sentence = f"it is right but for the factor {factor:.6g}"
        yield DxCandidate(
            "gradient_scaled", "DX-ACCURACY", sentence, partial(_scaled, factor=factor, error=error)
        )
    if len(actual) < _FEWEST_ROWS:  # one row is right with some eps whatever its fault
        return
    for name, cost in (
        ("eps_measured", _cost_again(setting, actual, usable)),
        ("eps_measured_in_front", _cost_in_front(setting, right, actual.where(usable, 0.0))),
    ):
        eps = _lowest(cost)
        if not _matters(setting.source.mean, setting.rows.eps, eps, error):
            continue
        sentence = f"in dx eps acts as about {eps:.3g}, but should be {setting.rows.eps:g}"
        build = partial(_eps, eps=eps, error=error, again=name == "eps_measured")
        yield DxCandidate(name, "DX-RRMS", sentence, build)


def _cost_again(s: Setting, actual: Tensor, usable: Tensor) -> Callable[[float], float]:
    """How far r * a - r**3 * h * dot is from actual, with r of another eps, by row sums taken once."""
    a, v = s.a.where(usable, 0.0), actual.where(usable, 0.0)
    b = (s.source.h * (s.source.h * s.a).mean(-1, keepdim=True)).where(usable, 0.0)
    aa, bb, vv, ab, av, bv = (
        (one * other).sum(-1) for one, other in ((a, a), (b, b), (v, v), (a, b), (a, v), (b, v))
    )
    mean, size = s.source.mean[:, 0], vv.clamp_min(1e-300)

    def cost(eps: float) -> float:
        r = (mean + eps).rsqrt()
        off = r**2 * aa + r**6 * bb + vv - 2.0 * (r**4 * ab + r * av - r**3 * bv)
        return float((off / size).sum())

    return cost


def _cost_in_front(s: Setting, right: Tensor, actual: Tensor) -> Callable[[float], float]:
    """The same where the other eps is only in the factor in front of both terms."""
    rr, rv, vv = ((one * other).sum(-1) for one, other in ((right, right), (right, actual), (actual, actual)))
    mean, own, size = s.source.mean[:, 0], s.source.rrms[:, 0], vv.clamp_min(1e-300)

    def cost(eps: float) -> float:
        ratio = (mean + eps).rsqrt() / own
        return float(((ratio**2 * rr - 2.0 * ratio * rv + vv) / size).sum())

    return cost


def measured_dweight(reading: Reading, values: Tensor) -> Iterator[DweightCandidate]:
    """The same for dweight of the columns of the reading, (columns,)."""
    mean = reading.statistic.mean
    if len(values) < _FEWEST or not bool(values.isfinite().all()) or len(mean) < _FEWEST_ROWS:
        return
    products = reading.columns.dy * reading.h
    scale = (products * reading.statistic.rrms).abs().sum(0).clamp_min(1e-300)

    def cost(eps: float) -> float:
        found = (mean[:, 0] + eps).rsqrt() @ products
        return float(((found - values) / scale).square().sum())

    eps = _lowest(cost)
    error = _readable(reading.columns.problem.dweight_dtype, len(values))
    if not _matters(mean, reading.columns.problem.forward.eps, eps, error):
        return
    sentence = (
        f"in dweight eps acts as about {eps:.3g}, but should be {reading.columns.problem.forward.eps:g}"
    )
    build = partial(_sum_with_eps, eps=eps, error=error)
    yield DweightCandidate("dweight_eps_measured", "DWEIGHT-XHAT", sentence, build)


def _readable(dtype: str, count: int) -> float:
    """The relative error of a factor that is read off `count` values stored in dtype."""
    return 6.0 * 2.0 ** -MANTISSA[dtype] / math.sqrt(count) + 2.0**-22


def _matters(mean: Tensor, right: float, eps: float, error: float) -> bool:
    """Whether the other eps changes most rows by clearly more than what can be read off: else it explains
    noise, which any number does."""
    ratio = ((mean + right) / (mean + eps)).sqrt()
    return float((ratio - 1.0).abs().median()) > _CLEAR * error


def _lowest(cost: Callable[[float], float]) -> float:
    """The eps of the lowest cost: a grid over its exponent, then a golden section around the best."""
    grid = torch.linspace(*_EXPONENTS, _GRID, dtype=torch.float64).tolist()
    costs = [cost(10.0**e) for e in grid]
    at = min(range(_GRID), key=lambda i: costs[i])
    low, high = grid[max(0, at - 1)], grid[min(_GRID - 1, at + 1)]
    for _ in range(_REFINED):
        first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if cost(10.0**first) <= cost(10.0**second):
            high = second
        else:
            low = first
    return 10.0 ** ((low + high) / 2.0)


def _with_eps(s: Setting, eps: float, error: float, again: bool) -> Form:
    """dx with another eps, in both terms or only in the factor in front of them."""
    wrong = 1.0 / (s.source.mean + eps).sqrt()
    relative = torch.as_tensor(s.source.relative) + error
    if again:
        return s.jacobian(rrms=wrong, relative=relative)
    form, ratio = s.jacobian(relative=relative), wrong / s.source.rrms
    return replace(
        form, first=form.first * ratio, second=form.second * ratio, second_scale=form.second_scale * ratio
    )


def _eps(s: Setting, eps: float, error: float, again: bool) -> Iterator[Form]:
    yield _with_eps(s, eps, error, again)


def _scaled(s: Setting, factor: float, error: float) -> Iterator[Form]:
    form = s.jacobian(relative=torch.as_tensor(s.source.relative) + error)
    yield replace(
        form, first=form.first * factor, second=form.second * factor,
        second_scale=form.second_scale * abs(factor),
    )  # fmt: skip


def _sum_with_eps(r: Reading, eps: float, error: float) -> Iterator[Sum]:
    yield r.summed(r.h / (r.statistic.mean + eps).sqrt(), relative=r.statistic.relative + error)
