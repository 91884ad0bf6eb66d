"""What the wrappers of the Triton mutants share, all of it right. Not a mutant.

Rows, weight, outputs and the width of a tile. Nothing here imports Triton.
"""

from __future__ import annotations

import torch

from conformance.mutants import _formula


def rows(tensor):
    """The tensor as (n_rows, hidden_size) with unit column stride: a view where there is one, else a copy."""
    hidden_size = tensor.shape[-1]
    flat = tensor.reshape(tensor.numel() // hidden_size, hidden_size)
    return flat if flat.stride(-1) == 1 else flat.contiguous()


def vector(weight, x):
    """The weight with unit stride, or ones where there is none: a kernel then needs one form only."""
    if weight is None:
        return torch.ones(x.shape[-1], dtype=torch.float32, device=x.device)
    return weight.contiguous()


def width(hidden_size):
    """The smallest power of two that holds a row."""
    return 1 << (hidden_size - 1).bit_length()


def prepare(x, weight, eps):
    """Check the arguments; return x as rows, the weight as a vector, and an empty y of x's rows."""
    _formula.check(x, weight, eps)
    x_rows = rows(x)
    return x_rows, vector(weight, x), torch.empty(x_rows.shape, dtype=x.dtype, device=x.device)


def prepare_fused(x, residual, weight, eps):
    """The same for the fused add: x, residual, weight, empty y and empty residual_out."""
    _formula.check(x, weight, eps, residual)
    x_rows, residual_rows = rows(x), rows(residual)
    y = torch.empty(x_rows.shape, dtype=x.dtype, device=x.device)
    residual_out = torch.empty(x_rows.shape, dtype=residual.dtype, device=x.device)
    return x_rows, residual_rows, vector(weight, x), y, residual_out
