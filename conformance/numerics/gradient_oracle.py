"""The oracle of the backward: gradients of RMSNorm and of the fused add in float64, from the formula.

    a = dy * (weight + weight_offset)                 (no weight: a = dy)
    c = mean(x_hat * a)                               one number per row
    ds = rrms * (a - x_hat * c) + dresidual_out       (plain: nothing is added)
    dweight = sum over the rows of dy * x_hat

ds is the gradient of the sum that was normalised; dx and dresidual are both ds, each in its own dtype. An
output whose gradient does not arrive counts as zero. tests/test_gradients_oracle.py holds this against exact
fractions, finite differences and automatic differentiation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.oracle import effective_weight, norm_source, reciprocal_rms


def gradients(problem: GradientProblem, norm_input: str = "exact_sum") -> tuple[Tensor, Tensor]:
    """ds, (n_rows, hidden_size), and dweight, (hidden_size,), both float64 and before any rounding.

    norm_input: the sum that the backward reads. Raises ValueError for an unknown one.
    """
    forward = problem.forward
    numerator, source = norm_source(forward.x, forward.residual, norm_input, forward.residual_dtype)
    rrms = reciprocal_rms(source, forward.eps)
    x_hat = numerator * rrms
    dy = torch.zeros_like(x_hat) if problem.dy is None else problem.dy
    weight = effective_weight(forward.weight, forward.weight_offset)
    a = dy if weight is None else dy * weight
    ds = rrms * (a - x_hat * (x_hat * a).mean(dim=-1, keepdim=True))
    if problem.dresidual_out is not None:
        ds = ds + problem.dresidual_out
    return ds, (dy * x_hat).sum(dim=0)
