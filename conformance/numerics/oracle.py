"""The oracle: RMSNorm and the fused add in float64, from the formula.

    s = x + residual                      (fused; plain: s = x)
    rrms = 1 / sqrt(mean(s * s) + eps)    one number per row
    x_hat = s * rrms
    y = x_hat * (weight + weight_offset)  (no weight: y = x_hat)

It is never a kernel and never computed in a tensor's own dtype. The only roundings that are put in on purpose
are those of the convention `norm_input`: which sum, exact or as it was stored, is normalised.
tests/test_oracle.py holds it against exact fractions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conformance.numerics.rounding import nearest, truncated

NORM_INPUTS = ("exact_sum", "rounded_sum", "mixed")


def effective_weight(weight: Tensor | None, weight_offset: float) -> Tensor | None:
    """weight + weight_offset of shape (hidden_size,), in float64; None where there is no weight."""
    if weight is None:
        return None
    return weight + weight_offset if weight_offset else weight


def norm_source(
    x: Tensor,
    residual: Tensor | None,
    norm_input: str,
    residual_dtype: str,
    *,
    truncating: bool = False,
) -> tuple[Tensor, Tensor]:
    """What is scaled (the numerator) and what its statistic is taken of, each (n_rows, hidden_size) float64.

    exact_sum: both are x + residual. rounded_sum: both are that sum as stored in `residual_dtype`. mixed: the
    numerator is the stored sum, the statistic that of the exact one. Without a residual both are x.
    `truncating`: the sum was stored toward zero. Raises ValueError for another norm_input.
    """
    if residual is None:
        return x, x
    exact = x + residual
    if norm_input == "exact_sum":
        return exact, exact
    rounded = (truncated if truncating else nearest)(exact, residual_dtype)
    if norm_input == "rounded_sum":
        return rounded, rounded
    if norm_input == "mixed":
        return rounded, exact
    raise ValueError(f"norm_input is {norm_input!r}, but should be one of {', '.join(NORM_INPUTS)}")


def mean_square(source: Tensor) -> Tensor:
    """mean(source²) of every row, (n_rows, 1) float64."""
    return (source * source).mean(dim=-1, keepdim=True)


def reciprocal_rms(source: Tensor, eps: float) -> Tensor:
    """rrms = 1 / sqrt(mean(source²) + eps) of every row, (n_rows, 1) float64."""
    return 1.0 / torch.sqrt(mean_square(source) + eps)


def normalise(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    *,
    eps: float,
    weight_offset: float = 0.0,
    norm_input: str = "exact_sum",
    residual_dtype: str = "float32",
) -> Tensor:
    """y before its last rounding, (n_rows, hidden_size) float64, for float64 copies of the stored inputs."""
    numerator, statistic = norm_source(x, residual, norm_input, residual_dtype)
    x_hat = numerator * reciprocal_rms(statistic, eps)
    w = effective_weight(weight, weight_offset)
    return x_hat if w is None else x_hat * w
