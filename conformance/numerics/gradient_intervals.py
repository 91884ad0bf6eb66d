"""The allowed interval of every element of dx, dresidual and dweight, for right formulas and wrong ones.

u = 2**-24, N = hidden_size, M = n_rows, B the allowed relative error of x_hat, S = mean |x_hat * a|.

    ds = first - second,   first = rrms * a,   second = rrms * x_hat * c
    E  = (B + 5u) |first| + ((8 sqrt(N) + 8) u + 3B) rrms |x_hat| S

E scales with the two terms and not with their difference, for they may cancel almost completely; c is a sum
of signed products, so its error scales with S and not with |c|. 3B: second holds rrms three times. 5u and 8u:
the roundings of the products, of the division by N and of the subtraction.

    dweight = sum of M terms, each in [low, high]:   k = (8 sqrt(M) + 1) u * sum max(|low|, |high|)

Subnormals of fp32 may be flushed to zero wherever they turn up. What that costs is an absolute error of the
size 2**-126, `slack`, and no tolerance for anything that is a normal number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.numerics.intervals import SMALLEST_NORMAL, Interval, U
from conformance.numerics.rounding import nearest, store


@dataclass(frozen=True)
class DxParts:
    """A formula of dx taken apart: first - second + added. Every tensor is float64.

    first, second (n_rows, hidden_size); second_scale, of second's shape, what the error of the row sum
    scales with: rrms * |x_hat| * S. relative: B, a number or (n_rows, 1). added: dresidual_out, or None.
    cost: what the effective weight and its product cost, in units of u. lost: the share of second_scale
    that may be flushed to zero on the way, or lost in a sum of terms that are alike, a number or (n_rows,
    1). slack: an absolute error, (n_rows, 1) or (n_rows, hidden_size), or None.
    """

    first: Tensor
    second: Tensor
    second_scale: Tensor
    relative: Tensor | float
    added: Tensor | None = None
    cost: float = 1.0
    lost: Tensor | float = 0.0
    slack: Tensor | None = None


def dx_error(parts: DxParts) -> Tensor:
    """E: how far first - second, computed in fp32, may be from the real value; Inf where nothing is known."""
    hidden_size = parts.first.shape[-1]
    of_first = parts.relative + (4.0 + parts.cost) * U
    of_second = 3.0 * parts.relative + parts.lost + (8.0 * math.sqrt(hidden_size) + 7.0 + parts.cost) * U
    error = parts.first.abs().mul_(of_first)
    error += parts.second_scale * of_second
    error += 3.0 * SMALLEST_NORMAL if parts.slack is None else parts.slack
    return error


def added_error(parts: DxParts, norm: Tensor, error: Tensor) -> Tensor:
    """What adding dresidual_out in fp32 costs, norm being first - second with an error of `error`.

    It may meet one of the two terms before the other, and is then rounded twice.
    """
    assert parts.added is not None, "there is nothing to add"
    return (norm.abs() + error + 2.0 * parts.added.abs()).mul_(U)


def dx_interval_of(
    parts: DxParts, *, dtype: str, norm_dtype: str | None = None, total_dtype: str | None = None
) -> Interval:
    """The interval of dx or dresidual in `dtype`, for any formula taken apart.

    norm_dtype: what first - second is rounded to before `added` is added; None: added once, in fp32.
    total_dtype: what the total is rounded to before its own dtype, or None. Ends are NaN where the centre is
    not finite; `gradients` judges those by kind.
    """
    centre = parts.first - parts.second
    error = dx_error(parts)
    if norm_dtype is not None:
        low, high = nearest(centre - error, norm_dtype), nearest(error.add_(centre), norm_dtype)
        if parts.added is not None:
            # dresidual_out and the total may each be flushed to zero.
            centre += parts.added
            low += parts.added - 2.0 * SMALLEST_NORMAL
            high += parts.added + 2.0 * SMALLEST_NORMAL
    else:
        if parts.added is not None:
            error += added_error(parts, centre, error)
            centre += parts.added
        low, high = centre - error, error.add_(centre)
    if total_dtype is not None:
        low, high = nearest(low, total_dtype), nearest(high, total_dtype)
    return Interval(centre, store(low, dtype), store(high, dtype))


@dataclass(frozen=True)
class DweightParts:
    """Some rows of a formula of dweight, whose terms are dy * x_hat: both (rows, hidden_size) float64.

    relative: B of x_hat, a number or (rows, 1). slack: an absolute error of each term, (rows, 1), or None.
    """

    dy: Tensor
    x_hat: Tensor
    relative: Tensor | float
    slack: Tensor | None = None


class DweightSums:
    """The sums over the rows that an interval of dweight needs, gathered chunk by chunk."""

    def __init__(self, *, rounds_x_hat: bool, rounds_product: bool, x_dtype: str) -> None:
        self.rounds_x_hat = rounds_x_hat
        self.rounds_product = rounds_product
        self.x_dtype = x_dtype
        self.n_rows = 0
        self.low: Tensor | float = 0.0
        self.high: Tensor | float = 0.0
        self.centre: Tensor | float = 0.0
        self.scale: Tensor | float = 0.0
        self.slack: Tensor | float = 0.0

    def add(self, parts: DweightParts) -> None:
        """Add the terms of some rows."""
        self.n_rows += parts.dy.shape[0]
        slack = parts.dy.shape[0] * 3.0 * SMALLEST_NORMAL if parts.slack is None else parts.slack.sum()
        self.slack = self.slack + slack
        if not self.rounds_x_hat and not self.rounds_product:
            terms = parts.dy * parts.x_hat
            total = terms.sum(0)
            size = terms.abs_()
            scale = size.sum(0)
            spread = size.mul_(parts.relative).sum(0)
            self._gather(total - spread, total + spread, total, scale + spread)
            return
        a = parts.x_hat.abs().mul_(parts.relative)
        first, second = parts.x_hat - a, a.add_(parts.x_hat)
        if self.rounds_x_hat:
            first, second = nearest(first, self.x_dtype), nearest(second, self.x_dtype)
        first, second = first.mul_(parts.dy), second.mul_(parts.dy)
        if self.rounds_product:
            first, second = nearest(first, self.x_dtype), nearest(second, self.x_dtype)
        low, high = torch.minimum(first, second).sum(0), torch.maximum(first, second).sum(0)
        self._gather(low, high, (low + high) / 2.0, torch.maximum(first.abs_(), second.abs_()).sum(0))

    def _gather(self, low: Tensor, high: Tensor, centre: Tensor, scale: Tensor) -> None:
        self.low = self.low + low
        self.high = self.high + high
        self.centre = self.centre + centre
        self.scale = self.scale + scale

    def ends(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The lowest and the highest real sum and the one between, each float64 of like's shape and device.

        Without any row all three are exactly zero.
        """
        zeros = torch.zeros_like(like, dtype=torch.float64)
        k = (8.0 * math.sqrt(self.n_rows) + 1.0) * U * self.scale + self.slack
        return zeros + self.low - k, zeros + self.high + k, zeros + self.centre

    def interval(self, like: Tensor, dtype: str) -> Interval:
        """The interval of dweight in `dtype`. Ends are NaN where the centre is not finite."""
        low, high, centre = self.ends(like)
        return Interval(centre, store(low, dtype), store(high, dtype))


def dweight_interval_of(
    chunks: Iterable[DweightParts],
    like: Tensor,
    *,
    dtype: str,
    rounds_x_hat: bool = False,
    rounds_product: bool = False,
    x_dtype: str = "float32",
) -> Interval:
    """The interval of dweight in `dtype`, for any formula taken apart into chunks of rows.

    like: a (hidden_size,) tensor, for its size and device. x_dtype: what x_hat and the product are rounded
    to, where they are. No chunks at all: exactly zero.
    """
    sums = DweightSums(rounds_x_hat=rounds_x_hat, rounds_product=rounds_product, x_dtype=x_dtype)
    for parts in chunks:
        sums.add(parts)
    return sums.interval(like, dtype)
