"""Sums whose roundings do not average out, and what these may cost.

The bound of a sum, 8 sqrt(n) u, takes the rounding errors of its additions for independent. In a row of
equal terms they are not: in each binade of the running sum every addition is off by the same amount. There a
proven term is added. Let p be the sizes of the terms, and let a kernel add them in the order of the columns
or against it, in any number of lanes. When it adds the i-th term, its partial sum holds terms that come
before it, hence at most P, the sum of all these and the term. So the addition is off by at most half the
spacing of fp32 at P. It is off by no more than the term either, since the old partial sum is a number that it
could have been rounded to. To first order in u the whole sum is off by at most

    D = sum of min(p_i, half the spacing of fp32 at P_i),   the larger of the two directions

and adding up the lanes costs what a sum without repeats costs. For equal terms D is at most 3/8 n u of the
sum.

Terms are alike where they differ by less than the spacing at the whole sum: they lose the same bits. A sum
counts as repetitive where one term in 512 is like the two before it. In random rows of 16-bit numbers that is
one in ten thousand.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conformance.numerics.rounding import ulp

FEW = 64
"""Up to so many terms 8 sqrt(n) u is a proof: n - 1 additions are off by u at most each."""
ONE_IN = 512


def repeats(sizes: Tensor) -> Tensor:
    """D of every row of `sizes`, float64 (n_rows, terms) and not negative: (n_rows, 1), 0 where terms differ.

    Rows that hold a NaN or an Inf have 0 too.
    """
    found = torch.zeros_like(sizes[:, :1])
    terms = sizes.shape[-1]
    if terms <= FEW:
        return found
    total = sizes.sum(-1, keepdim=True)
    alike = (sizes[:, 1:] - sizes[:, :-1]).abs_() < ulp(total, "float32")
    alike = alike[:, 1:] & alike[:, :-1] & (sizes[:, 2:] > 0.0)
    repetitive = (alike.sum(-1) * ONE_IN >= terms) & total[:, 0].isfinite()
    if not bool(repetitive.any()):
        return found
    rows = sizes[repetitive]
    found[repetitive] = torch.maximum(_lost(rows), _lost(rows.flip(-1)))
    return found


def _lost(sizes: Tensor) -> Tensor:
    half = ulp(sizes.cumsum(-1), "float32").mul_(0.5)
    return torch.minimum(sizes, half).sum(-1, keepdim=True)
