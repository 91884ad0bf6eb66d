"""The right computation in plain torch, in pieces, for mutants and variants to build on. Not a mutant.

y = x * rrms * weight with rrms = 1 / sqrt(mean(x**2) + eps), everything in fp32, rounded once at the end;
the fused form normalises the exact fp32 sum x + residual and returns the sum rounded to residual's dtype.
"""

from __future__ import annotations

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def check(x, weight, eps, residual=None):
    """Refuse what cannot be right, before anything is computed or written.

    Raises TypeError for a dtype that is not floating, ValueError for a shape, device or eps.
    """
    tensors = {"x": x, "residual": residual, "weight": weight}
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.dtype not in FLOATS:
            raise TypeError(f"{name}.dtype={tensor.dtype}, but should be float32, float16 or bfloat16")
        if tensor.device != x.device:
            raise ValueError(f"{name}.device={tensor.device}, but should be x's, {x.device}")
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"residual.shape={tuple(residual.shape)}, but should be {tuple(x.shape)}")
    if weight is not None and weight.shape != x.shape[-1:]:
        raise ValueError(f"weight.shape={tuple(weight.shape)}, but should be {tuple(x.shape[-1:])}")
    if not eps > 0:
        raise ValueError(f"eps={eps}, but should be greater than 0")


def mean_square(h):
    """Mean over the last dimension of h squared, in fp32, shape (..., 1)."""
    return h.float().square().mean(-1, keepdim=True)


def rrms(h, eps):
    """The reciprocal root mean square of each row, fp32, shape (..., 1)."""
    return torch.rsqrt(mean_square(h) + eps)


def scale(h, factor, weight, dtype):
    """Return h * factor * weight, computed in fp32 and rounded once to dtype; weight may be None."""
    y = h.float() * factor
    if weight is not None:
        y = y * weight.float()
    return y.to(dtype)


def rms_norm(x, weight, eps):
    """The right rms_norm, one rounding; returns y in x's shape and dtype."""
    check(x, weight, eps)
    h = x.float()  # once: autograd rounds the gradient of each cast by itself
    return scale(h, rrms(h, eps), weight, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps):
    """The right fused add, one rounding of the exact sum; returns (y, residual_out)."""
    check(x, weight, eps, residual)
    total = x.float() + residual.float()
    return scale(total, rrms(total, eps), weight, x.dtype), total.to(residual.dtype)


def truncate(value, dtype):
    """fp32 to dtype, rounded toward zero instead of to nearest even."""
    nearest = value.to(dtype)
    if dtype == torch.float32:
        return nearest
    # One less in the bit pattern is one step toward zero, for either sign.
    inward = (nearest.view(torch.int16) - 1).view(dtype)
    return torch.where(nearest.float().abs() > value.abs(), inward, nearest)
