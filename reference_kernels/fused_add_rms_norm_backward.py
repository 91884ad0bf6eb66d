"""Lesson 9. Fused add + RMSNorm, backward: a second gradient joins, after the norm's.

    a        = dy * weight,   x_hat = residual_out * rrms,   c = mean(a * x_hat)
    ds       = rrms * (a - x_hat * c) + dresidual_out
    dx       = round(ds) to x's dtype,   dresidual = round(ds) to residual's dtype
    dweight  = round(sum over the rows of dy * x_hat)

Read after lesson 7, whose kernels these are. The forward has two outputs, and the sum s = x + residual
reaches the loss along both: through the norm, whose gradient lesson 7 computes, and as the residual stream,
whose gradient is dresidual_out as it comes. So dresidual_out is added after the norm's Jacobian, in
float32, before the one rounding. Added to dy before it, it would be normalised like the rest, which is
wrong and looks plausible. Either gradient may be absent: a last block's stream often ends unused.

An addition hands its gradient to both operands unchanged, so dx and dresidual are one and the same tensor
where their dtypes agree. A float32 stream beside a 16-bit x needs two stores of the same number.

What was normalised is read back as residual_out, the rounded sum: the exact one was never stored. rrms is
that of the exact sum, as saved.

Bytes per row: read dy, residual_out and dresidual_out, write ds, 4 * hidden_size * itemsize.

    dtypes   dy, dx: x's. residual_out, dresidual_out, dresidual: residual's. All arithmetic is float32.
    eps      inside the root, in the forward. Here it is not needed: it is in rrms.
    weight   shape (hidden_size,), or none; by column. dweight has the same shape.
    bias     none, and no mean is subtracted; so there is no dbias either.
    saved    rrms, the reciprocal, is read, never computed again.
"""

from __future__ import annotations

import torch

from . import arguments, gradient_arguments
from .rms_norm_backward import rms_norm_backward_kernel, run_kernels


def fused_add_rms_norm_backward(
    dy: torch.Tensor | None,
    dresidual_out: torch.Tensor | None,
    residual_out: torch.Tensor,
    weight: torch.Tensor | None,
    rrms: torch.Tensor,
    *,
    x_dtype: torch.dtype | None = None,
    needs_dx: bool = True,
    needs_dresidual: bool = True,
    needs_dweight: bool = True,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Return (dx, dresidual, dweight) of y, residual_out = fused_add_rms_norm(x, residual, weight).

    dy and dresidual_out are the gradients of the two outputs, with any strides (`rms_norm_backward` says
    when they are copied). Either may be None and then adds nothing; with both None so are all answers.
    residual_out (..., hidden_size) and rrms, float32 and (n_rows,), are what the forward returned. x_dtype is
    the dtype of x and dx; left out, it is dy's, or residual_out's where dy is None.

    dx and dresidual are the same values, and one and the same tensor where x and residual have one dtype;
    without dy, a gradient of the right dtype is dresidual_out itself. dweight has weight's shape and dtype
    and is None where weight or dy is None: y alone depends on the weight. What is not needed is None and
    costs nothing. Nothing that is passed is changed. The answer has no graph.

    Raises TypeError or ValueError, before anything is launched, for dtypes, devices, shapes and column
    strides of residual_out that the kernels cannot take.
    """
    x_dtype = x_dtype or (residual_out if dy is None else dy).dtype
    _check(dy, dresidual_out, residual_out, weight, rrms, x_dtype)
    if dy is None:
        dx = None if dresidual_out is None else dresidual_out.to(x_dtype)
        return dx if needs_dx else None, dresidual_out if needs_dresidual else None, None

    shared = x_dtype == residual_out.dtype
    stores_dx = needs_dx or (shared and needs_dresidual)
    stores_dresidual = needs_dresidual and not shared
    shape, device = residual_out.shape, residual_out.device
    dx = torch.empty(shape, dtype=x_dtype, device=device) if stores_dx else None
    dresidual = torch.empty(shape, dtype=residual_out.dtype, device=device) if stores_dresidual else dx
    dweight = torch.empty_like(weight) if needs_dweight and weight is not None else None
    second = dresidual if stores_dresidual else None
    run_kernels(dy, residual_out, weight, rrms, dresidual_out, dx, second, dweight)
    return dx if needs_dx else None, dresidual if needs_dresidual else None, dweight


def _check(
    dy: torch.Tensor | None,
    dresidual_out: torch.Tensor | None,
    residual_out: torch.Tensor,
    weight: torch.Tensor | None,
    rrms: torch.Tensor,
    x_dtype: torch.dtype,
) -> None:
    arguments.check_x(residual_out, "residual_out")
    if x_dtype not in arguments.DTYPES or residual_out.dtype not in (x_dtype, torch.float32):
        raise TypeError(
            f"residual_out.dtype={residual_out.dtype} with x's dtype {x_dtype}, but should be the same or"
            " torch.float32 beside a 16-bit x: pass what the forward returned"
        )
    if weight is not None:
        arguments.check_weight(weight, residual_out)
    if dy is not None:
        gradient_arguments.check_upstream("dy", dy, residual_out, (x_dtype,))
    if dresidual_out is not None:
        gradient_arguments.check_upstream("dresidual_out", dresidual_out, residual_out, (residual_out.dtype,))
    gradient_arguments.check_rrms(rrms, residual_out)
    arguments.check_runs_here(rms_norm_backward_kernel, residual_out)
