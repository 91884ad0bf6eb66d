"""The calls: forward alone where nothing is to be differentiated, with a graph where something is."""

from __future__ import annotations

import torch

from . import autograd, compiling, gradient_arguments
from .fused_add_rms_norm_forward import fused_add_rms_norm_forward, fused_add_rms_norm_forward_
from .rms_norm_forward import rms_norm_forward


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    *,
    return_rrms: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return y = x / sqrt(mean(x**2) + eps) * weight over the last dimension, as a new tensor.

    x is (..., hidden_size) in float32, float16 or bfloat16, with any row stride; weight is
    (hidden_size,) in any of these dtypes, or None. y has the shape and dtype of x and is contiguous.
    With return_rrms the answer is (y, rrms), rrms float32 and (n_rows,), one number for each row of x
    flattened. x with no single row stride is copied first.

    Differentiable once, in x and weight; rrms has no gradient. `rms_norm_backward` says what the gradients
    are. Inside torch.compile the call is one operator of the graph.

    Raises TypeError or ValueError, before anything is launched, for dtypes, devices, shapes and column
    strides that the kernels cannot take, and for eps <= 0.
    """
    if torch.compiler.is_compiling():
        y, rrms = compiling.rms_norm(x, weight, eps)
    elif autograd.wanted(x, weight):
        y, rrms = autograd.RMSNorm.apply(x, weight, eps)
    else:
        y, rrms = rms_norm_forward(x, weight, eps, save_rrms=return_rrms)
    return (y, rrms) if return_rrms else y


def fused_add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float = 1e-6,
    *,
    return_rrms: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Return (y, residual_out): the norm of x + residual, and x + residual rounded. New tensors.

    x and residual are (..., hidden_size), the same shape, with any row strides; weight is
    (hidden_size,) or None. y has x's dtype, residual_out has residual's: x's dtype, or float32 beside a
    16-bit x. Both are contiguous. With return_rrms the answer is (y, residual_out, rrms), rrms float32
    and (n_rows,). Inputs with no single row stride are copied first.

    Differentiable once, in x, residual and weight, through either output or both; rrms has no gradient.
    `fused_add_rms_norm_backward` says what the gradients are. Inside torch.compile the call is one operator
    of the graph.

    Raises TypeError or ValueError, before anything is launched, for dtypes, devices, shapes and column
    strides that the kernels cannot take, and for eps <= 0.
    """
    if torch.compiler.is_compiling():
        y, residual_out, rrms = compiling.fused_add_rms_norm(x, residual, weight, eps)
    elif autograd.wanted(x, residual, weight):
        y, residual_out, rrms = autograd.FusedAddRMSNorm.apply(x, residual, weight, eps)
    else:
        y, residual_out, rrms = fused_add_rms_norm_forward(x, residual, weight, eps, save_rrms=return_rrms)
    return (y, residual_out, rrms) if return_rrms else (y, residual_out)


def fused_add_rms_norm_(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float = 1e-6,
) -> None:
    """Overwrite x with the norm of x + residual, and residual with x + residual rounded.

    Arguments as in fused_add_rms_norm, and refused like there. Also refused with ValueError, since the
    answer belongs in the caller's storage: x or residual with no single row stride or with rows that
    share memory, and tensors that overlap each other. Forward only: while grad mode is on, an argument
    that requires grad is refused with ValueError too.
    """
    gradient_arguments.check_no_gradient(x=x, residual=residual, weight=weight)
    if torch.compiler.is_compiling():
        compiling.fused_add_rms_norm_(x, residual, weight, eps)
    else:
        fused_add_rms_norm_forward_(x, residual, weight, eps)
