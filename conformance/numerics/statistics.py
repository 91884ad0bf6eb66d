"""Signed bias, row gain and an ULP histogram: what a maximum error cannot show.

With t the float64 value under the convention at hand, e = y - t and ulp the spacing of y's dtype at t:

    bias   mean(sign(t) * e / ulp)            about 0 for nearest even, -0.5 for truncation
    gain   sum(e * t) / sum(t * t), per row   relative error that all elements of a row share

Both are reported as they are. Neither is compared with 0, because a correct rounding need not average to 0: a
bf16 row has but 128 mantissas, and where rrms is near 1 each x_hat rounds straight back to x, all in one
direction. What is tested is the excess over y*, the same elements correctly rounded:

    |excess| <= 8 sigma + slack

sigma comes from the tensor's own ulps (a rounding error is uniform over one ulp, of variance ulp**2 / 12);
slack is what the interval lets y differ from y*, averaged like the statistic itself. Slack is needed since an
fp32 statistic may be off by B(N), coherently in a row (its elements share one rrms) and over rows (an
approximate root errs to one side): in fp32 that is far above the rounding noise, in bf16 far below. So an
output inside its interval is never accused here; one that only a looser tolerance accepts (the base grade),
or that truncates, is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conformance.numerics.conventions import Convention, Problem, convention_named, row_chunks
from conformance.numerics.intervals import finite_ends, interval_of, parts_of
from conformance.numerics.rounding import nearest, ulp

SIGMAS = 8.0
ULP_BINS = (0.5, 1.0, 1.5, 2.0, 4.0, 16.0, 256.0)
"""Upper edges of the histogram of |y - t| in ulps; what is above the last one is counted as `ulp_more`."""


@dataclass
class _Sums:
    """What the rows have added up to so far."""

    count: int = 0
    bias: float = 0.0
    excess: float = 0.0
    slack: float = 0.0
    ulp_max: float = 0.0
    largest_gain: float = 0.0
    # row, excess, sigma, limit of the row furthest beyond its limit
    gain: tuple[int, float, float, float] = (0, 0.0, 0.0, math.inf)


def statistics(problem: Problem, convention: Convention | str, y: Tensor) -> dict[str, float]:
    """The statistics of y, (n_rows, hidden_size) float64, under the convention that explains it, or best
    does.

    The convention may be given by its name; ValueError where there is none of that name.

    Keys: count; bias, bias_excess, bias_sigma, bias_z, bias_allowed, bias_ok, in ulps; gain, the largest in
    magnitude, signed; gain_row, gain_excess, gain_sigma, gain_z, gain_allowed, gain_ok, relative, of the row
    furthest beyond its limit or nearest to it; ulp_max, ulp_le_<edge> and ulp_more, numbers of elements, each
    counted once. _ok is 1.0 or 0.0. With no element to judge only count is given, and it is 0.
    """
    if isinstance(convention, str):
        convention = convention_named(convention)
    sums = _Sums()
    counts = torch.zeros(len(ULP_BINS) + 1, dtype=torch.int64, device=y.device)
    for start, stop in row_chunks(problem):
        counts += _add(sums, problem.rows(start, stop), convention, y[start:stop], start)
    if sums.count == 0:
        return {"count": 0.0}
    n = sums.count
    sigma = math.sqrt(n / 12.0) / n
    limit = SIGMAS * sigma + sums.slack / n
    row, excess, noise, allowed = sums.gain
    edges = [f"ulp_le_{edge:g}" for edge in ULP_BINS] + ["ulp_more"]
    return {
        "count": float(n),
        "bias": sums.bias / n,
        "bias_excess": sums.excess / n,
        "bias_sigma": sigma,
        "bias_z": sums.excess / n / sigma,
        "bias_allowed": limit,
        "bias_ok": float(abs(sums.excess / n) <= limit),
        "gain": sums.largest_gain,
        "gain_row": float(row),
        "gain_excess": excess,
        "gain_sigma": noise,
        "gain_z": excess / noise if noise else 0.0,
        "gain_allowed": allowed,
        "gain_ok": float(abs(excess) <= allowed),
        "ulp_max": sums.ulp_max,
        **dict(zip(edges, map(float, counts.tolist()), strict=True)),
    }


def _add(sums: _Sums, problem: Problem, convention: Convention, y: Tensor, start: int) -> Tensor:
    """Add some rows to `sums`; returns their histogram."""
    # Correct rounding is to nearest even, also where y truncates: that is what makes truncation visible.
    parts = parts_of(problem, replace(convention, truncates_y=False))
    x_hat = parts.numerator * parts.rrms
    found = interval_of(
        parts,
        rounds_x_hat=convention.rounds_x_hat,
        x_dtype=problem.x_dtype,
        y_dtype=problem.y_dtype,
        x_hat=x_hat,
    )
    t = found.centre
    low, high = finite_ends(found)
    ideal = t
    if convention.rounds_x_hat:
        stored = nearest(x_hat, problem.x_dtype)
        ideal = stored if parts.weight is None else stored * parts.weight
    ideal = nearest(ideal, problem.y_dtype)
    # Overflow to Inf is not a rounding error, and a zero has none.
    used = t.isfinite() & y.isfinite() & ideal.isfinite() & low.isfinite() & high.isfinite() & (t != 0)

    def keep(values: Tensor) -> Tensor:
        return torch.where(used, values, 0.0)

    t, spacing = keep(t), ulp(t, problem.y_dtype)
    error, excess = keep(y - t), keep(y - ideal)
    slack = keep(torch.maximum(high - ideal, ideal - low))
    sign = t.sign() / spacing
    sums.count += int(used.sum())
    sums.bias += float((error * sign).sum())
    sums.excess += float((excess * sign).sum())
    sums.slack += float((slack / spacing).sum())
    _add_gain(sums, t, keep(spacing), error, excess, slack, start)
    ulps = (error.abs() / spacing)[used]
    if len(ulps):
        sums.ulp_max = max(sums.ulp_max, float(ulps.max()))
    edges = torch.tensor(ULP_BINS, dtype=torch.float64, device=y.device)
    # t is itself rounded to float64: half an ulp may come out as a hair more.
    return torch.bincount(torch.bucketize(ulps * (1.0 - 2.0**-40), edges), minlength=len(ULP_BINS) + 1)


def _add_gain(
    sums: _Sums, t: Tensor, spacing: Tensor, error: Tensor, excess: Tensor, slack: Tensor, start: int
) -> None:
    power = t.square().sum(-1)
    known = power > 0
    if not bool(known.any()):
        return
    power = torch.where(known, power, 1.0)
    gain = (error * t).sum(-1) / power
    largest = float(gain[int(gain.abs().argmax())])
    sums.largest_gain = max(sums.largest_gain, largest, key=abs)
    beyond_ideal = (excess * t).sum(-1) / power
    sigma = (t * spacing).square().sum(-1).div(12.0).sqrt() / power
    limit = SIGMAS * sigma + (slack * t.abs()).sum(-1) / power
    row = int((beyond_ideal.abs() - limit).masked_fill(~known, -torch.inf).argmax())
    found = (start + row, float(beyond_ideal[row]), float(sigma[row]), float(limit[row]))
    if abs(found[1]) - found[3] > abs(sums.gain[1]) - sums.gain[3]:
        sums.gain = found
