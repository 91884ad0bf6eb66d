"""The share of the allowed error that an output uses: 0 for a correct rounding, 1 at the interval's edge.

Of one element it is the smallest real error, beyond the roundings of the convention at hand, from which the
element can come, divided by the real error that is allowed there. In 16 bits most elements come from no error
at all; one that is rounded the other way needs the distance of the oracle from the rounding's border. So a
share means the same in every dtype, and is above 1 exactly where an element is outside.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from conformance.numerics.intervals import TINY, Interval, Parts, U, real_error
from conformance.numerics.rounding import nearest, store, ulp

_BELOW = 1.0 - 2.0**-40  # of a power of two: in the binade below it, where values are twice as close


def once(parts: Parts, found: Interval, y: Tensor, y_dtype: str) -> Tensor:
    """The share of every element of y, float64 (n_rows, hidden_size), stored once, by the interval `found`.

    NaN or Inf where y or the oracle is not finite.
    """
    error = (y - found.centre).abs_().sub_(half_spacing(y, found.centre, y_dtype))
    return error.div_(real_error(parts, found.centre))


def half_spacing(stored: Tensor, real: Tensor, dtype: str) -> Tensor:
    """How far a store into `dtype` may have moved what is now `stored`, `real` lying where it came from."""
    # At a power of two the spacing differs between its two sides: the nearer one to `real` is the smaller.
    half = torch.minimum(ulp(stored, dtype), ulp(real, dtype)).mul_(0.5)
    return half if dtype == "float32" else half.add_(real.abs(), alpha=U)  # 16 bits are reached through fp32


def twice(parts: Parts, x_hat: Tensor, found: Interval, y: Tensor, x_dtype: str, y_dtype: str) -> Tensor:
    """The share of every element of y where x_hat is stored in x_dtype before the weight.

    Only x_hat has an error to use: which stored x_hat gives y, and how far from the oracle's that is.
    """
    stored = nearest(x_hat, x_dtype)
    product = stored if parts.weight is None else stored * parts.weight
    share = torch.zeros_like(y)
    at = (store(product, y_dtype).to(torch.float64) != y).nonzero(as_tuple=True)
    if not len(at[0]):
        return share
    row, column = at
    weight = torch.ones_like(y[at]) if parts.weight is None else parts.weight[column].abs()
    relative = parts.relative[row, 0] if isinstance(parts.relative, Tensor) else parts.relative
    actual, first, real = y[at].abs(), stored[at].abs(), x_hat[at].abs()
    # The products that y may be the rounding of, and the stored x_hat that they may come from.
    cost = (parts.product_error + 1.0) * U
    low = (actual - 0.5 * ulp(actual * _BELOW, y_dtype)) * (1.0 - cost) / weight
    high = (actual + 0.5 * ulp(actual, y_dtype)) * (1.0 + cost) / weight
    up, down = _on_grid(low, x_dtype, torch.ceil), _on_grid(high, x_dtype, torch.floor)
    needed = torch.where(
        first < low,
        up - 0.5 * ulp(up * _BELOW, x_dtype) - real,
        torch.where(first > high, real - down - 0.5 * ulp(down, x_dtype), 0.0),
    )
    used = (needed - real * U) / (real * relative + TINY)
    turned = (y[at] * found.centre[at] < 0.0) | (weight == 0.0)
    share[at] = torch.where(turned & (actual > 0.0), torch.inf, used)
    return share


def _on_grid(t: Tensor, dtype: str, step: Callable[[Tensor], Tensor]) -> Tensor:
    """The value of `dtype` next to t, in the direction in which `step` rounds to integers."""
    spacing = ulp(t, dtype)
    return step(t / spacing) * spacing


def largest(share: Tensor, left_out: Tensor) -> float:
    """The largest share over the elements that are finite and not left out; at least 0."""
    share = torch.where(left_out | ~share.isfinite(), 0.0, share)
    return max(0.0, float(share.max())) if share.numel() else 0.0
