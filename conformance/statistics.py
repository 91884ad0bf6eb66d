"""Signed bias, row gain and an ULP histogram: what a maximum error cannot show.

A tensor can lie inside every interval and still be off in one direction everywhere. With t the float64 value under the
explaining convention, e = y - t and ulp the spacing of y's dtype at t:

    bias   mean(sign(t) * e / ulp)            0 for nearest even, -0.5 for truncation
    gain   sum(e * t) / sum(t * t), per row   relative error that all elements of a row share

A rounding error is uniform over one ulp, of variance ulp**2 / 12 (two roundings: that of x_hat, times the weight, comes
on top), so each statistic has a standard deviation derived from the tensor's own ulps. It fails beyond 8 of them PLUS
what the interval itself allows the whole tensor or the whole row to share: an fp32 statistic may be off by B(N), and
that error is coherent in a row (all its elements share one rrms) and may be coherent over rows (an approximate
reciprocal root errs to one side). Without that term every correct fp32 kernel would be accused: there the rounding noise
is far below B(N). In bf16 B(4096) is 0.006 ulp, so nearly nothing is given away.

Equal inputs round alike: rounding errors are independent only between different mantissas. A statistic beyond its limit
is therefore measured again with equal mantissas counted as one draw, before it fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.conventions import Convention, Problem
from conformance.intervals import U, parts_of
from conformance.rounding import ulp

SIGMAS = 8.0
ULP_BINS = (0.5, 1.0, 1.5, 2.0, 4.0, 16.0, 256.0)
"""Upper edges of the histogram of |y - t| in ulps; what is above the last one is counted as `ulp_more`."""

_GRAIN = 2.0**-10  # mantissas nearer than this part of an ulp round alike


@dataclass(frozen=True)
class Terms:
    """What the statistics are made of, over elements that can be judged: others hold 0, and `used` is False."""

    value: Tensor  # t
    error: Tensor  # y - t
    ulp: Tensor
    variance: Tensor  # of the rounding error of y
    allowed: Tensor  # what the fp32 statistic's error allows, in absolute terms
    used: Tensor


def statistics(problem: Problem, convention: Convention, y: Tensor) -> dict[str, float]:
    """The statistics of y, (n_rows, hidden_size) float64, under the convention that explained it.

    Keys: count; bias, bias_sigma, bias_z, bias_allowed, bias_ok; gain (the largest in magnitude, signed), gain_row,
    gain_sigma, gain_z, gain_allowed, gain_ok (of the row that is furthest beyond its limit); ulp_max, ulp_le_<edge> and
    ulp_more (numbers of elements). bias is in ulps, gain is relative. _ok is 1.0 or 0.0. With no element to judge only
    count is given, and it is 0.
    """
    terms = _terms(problem, convention, y)
    count = int(terms.used.sum())
    if count == 0:
        return {"count": 0.0}
    return {"count": float(count), **_bias(terms, count), **_gain(terms), **_histogram(terms)}


def _terms(problem: Problem, convention: Convention, y: Tensor) -> Terms:
    parts = parts_of(problem, convention)
    x_hat = parts.numerator * parts.rrms
    value = x_hat if parts.weight is None else x_hat * parts.weight
    spacing = ulp(value, problem.y_dtype)
    variance = spacing.square() / 12.0
    if convention.rounds_x_hat:
        first = ulp(x_hat, problem.x_dtype)
        variance += (first if parts.weight is None else first * parts.weight).square_() / 12.0
    # Overflow to Inf is not a rounding error, and a zero has none.
    used = value.isfinite() & y.isfinite() & (value != 0)

    def keep(t: Tensor) -> Tensor:
        return torch.where(used, t, 0.0)

    allowed = value.abs() * (parts.relative + parts.product_error * U)
    return Terms(keep(value), keep(y - value), keep(spacing), keep(variance), keep(allowed), used)


def _bias(terms: Terms, count: int) -> dict[str, float]:
    scale = torch.where(terms.used, 1.0 / terms.ulp, 0.0)
    bias = float((terms.error * terms.value.sign() * scale).sum()) / count
    deviation = terms.variance.sqrt() * scale
    sigma = float(deviation.square().sum().sqrt()) / count
    allowed = float((terms.allowed * scale).sum()) / count
    if abs(bias) > allowed + SIGMAS * sigma:
        groups = _groups(terms.value[terms.used], terms.ulp[terms.used])
        shared = torch.zeros(int(groups.max()) + 1, dtype=torch.float64, device=groups.device)
        shared.index_add_(0, groups, deviation[terms.used])
        sigma = float(shared.square().sum().sqrt()) / count
    limit = allowed + SIGMAS * sigma
    return {
        "bias": bias,
        "bias_sigma": sigma,
        "bias_z": bias / sigma if sigma else 0.0,
        "bias_allowed": limit,
        "bias_ok": float(abs(bias) <= limit),
    }


def _gain(terms: Terms) -> dict[str, float]:
    power = terms.value.square().sum(-1)
    known = power > 0
    power = torch.where(known, power, 1.0)
    gain = torch.where(known, (terms.error * terms.value).sum(-1) / power, 0.0)
    sigma = (terms.value.square() * terms.variance).sum(-1).sqrt() / power
    shared = (terms.allowed * terms.value.abs()).sum(-1) / power
    beyond = gain.abs() - (shared + SIGMAS * sigma)
    for row in (beyond > 0).nonzero()[:, 0].tolist():
        sigma[row] = _grouped_gain(terms, row) / power[row]
    beyond = gain.abs() - (shared + SIGMAS * sigma)
    row = int(beyond.argmax())
    largest = gain[int(gain.abs().argmax())]
    return {
        "gain": float(largest),
        "gain_row": float(row),
        "gain_sigma": float(sigma[row]),
        "gain_z": float(gain[row] / sigma[row]) if float(sigma[row]) else 0.0,
        "gain_allowed": float(shared[row] + SIGMAS * sigma[row]),
        "gain_ok": float(float(beyond[row]) <= 0.0),
    }


def _grouped_gain(terms: Terms, row: int) -> Tensor:
    used = terms.used[row]
    value, spacing = terms.value[row][used], terms.ulp[row][used]
    weighted = value.abs() * terms.variance[row][used].sqrt()
    groups = _groups(value, spacing)
    total = torch.zeros(int(groups.max()) + 1, dtype=torch.float64, device=groups.device)
    return total.index_add_(0, groups, weighted).square().sum().sqrt()


def _groups(value: Tensor, spacing: Tensor) -> Tensor:
    """A number for every element, equal where |value| / ulp is: such elements round by the same fraction of an ulp."""
    mantissa = (value.abs() / (spacing * _GRAIN)).round()
    return torch.unique(mantissa, return_inverse=True)[1].flatten()


def _histogram(terms: Terms) -> dict[str, float]:
    ulps = (terms.error.abs() / terms.ulp)[terms.used]
    edges = torch.tensor(ULP_BINS, dtype=torch.float64, device=ulps.device)
    # The centre of a value's preimage is found in float64: half an ulp may come out as a hair more.
    counts = torch.bincount(torch.bucketize(ulps * (1.0 - 2.0**-40), edges), minlength=len(ULP_BINS) + 1)
    named = [f"ulp_le_{edge:g}" for edge in ULP_BINS] + ["ulp_more"]
    return {"ulp_max": float(ulps.max()), **dict(zip(named, map(float, counts.tolist()), strict=True))}
