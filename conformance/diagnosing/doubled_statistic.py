"""What a backward did with a saved statistic that was handed to it doubled: read, inverted, or never read.

dx = alpha * first - beta * second + dresidual_out, with first = rrms * a and second = rrms * x_hat * c of the
right formula. A backward that reads rrms and takes x from its input gives alpha = 2 and beta = 8; with x_hat
saved beside it, beta = 2. Whatever it does, alpha is the power of two by which it took the statistic: 2 for
rrms, 1/2 for rms, 1 / sqrt(2) for the mean square, 1 where it computed its own. Both are found by least
squares over all rows, which no rounding disturbs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from conformance.diagnosing.gradient_rows import EXACT, Rows, Setting
from conformance.numerics.conventions import row_chunks
from conformance.numerics.gradient_conventions import GradientProblem

READ, INVERTED, MEAN_SQUARE, UNREAD = "read", "inverted", "mean square", "unread"

_FACTORS = {READ: 2.0, INVERTED: 0.5, MEAN_SQUARE: math.sqrt(0.5), UNREAD: 1.0}
_CLOSE = 0.08  # of the factor: half way between 1 and sqrt(0.5) is 0.15 away from either
_INDEPENDENT = 1e-3  # first and second must not be multiples of each other, or alpha says nothing


def by_dx(problem: GradientProblem, values: Tensor) -> str:
    """One of READ, INVERTED, MEAN_SQUARE, UNREAD; "" where dx cannot tell.

    values: dx or dresidual, (n_rows, hidden_size) float64, of the call whose statistics were doubled.
    """
    gram = torch.zeros(2, 2, dtype=torch.float64)
    moments = torch.zeros(2, dtype=torch.float64)
    for start, stop in row_chunks(problem.forward):
        index = torch.arange(start, stop, device=values.device)
        form = Setting(Rows(problem, index), EXACT, False).jacobian()
        actual = values[index] if form.added is None else values[index] - form.added
        terms = torch.stack([form.first, -form.second])
        usable = actual.isfinite() & terms.isfinite().all(0)
        # Rows of very different sizes: each counts alike.
        size = terms.abs().amax((0, 2)).clamp_min(1e-30)[:, None]
        terms = torch.where(usable, terms / size, 0.0).flatten(1)
        actual = torch.where(usable, actual / size, 0.0).flatten()
        gram += (terms @ terms.T).cpu()
        moments += (terms @ actual).cpu()
    scale = gram.diagonal().prod()
    if not float(scale) or float(torch.linalg.det(gram) / scale) < _INDEPENDENT:
        return ""
    return _named(float(torch.linalg.solve(gram, moments)[0]))


def by_dweight(ordinary: Tensor, values: Tensor) -> str:
    """The same from dweight, which scales with the statistic: of the usual call, and of the doubled one."""
    usable = ordinary.isfinite() & values.isfinite()
    right, actual = ordinary[usable], values[usable]
    size = float(right.square().sum())
    return _named(float((right * actual).sum()) / size) if size else ""


def _named(factor: float) -> str:
    return next((name for name, f in _FACTORS.items() if abs(factor - f) <= _CLOSE * f), "")
