"""Lesson 2. Fused add + RMSNorm, forward: add the residual, then normalise the sum.

    total        = x + residual                          float32
    residual_out = round(total)
    rrms         = 1 / sqrt(mean(total**2) + eps)        one number per row, float32
    y            = round(total * rrms * weight)

Read after lesson 1. New here: two inputs are added in float32, the rounded sum is stored as the next
block's residual, and the exact one is normalised. The stores may go to new tensors or back into x (y)
and residual (residual_out): a program has read its whole row before it writes any of it.

Bytes per row: read x and residual, write y and residual_out, 4 * hidden_size * itemsize. An add kernel
followed by a norm moves one row more and launches twice.

    dtypes   x, y: float16, bfloat16 or float32, the same. residual, residual_out: x's dtype, or a
             float32 stream beside a 16-bit x. weight: any of the three. All arithmetic is float32, the
             addition too: added in 16 bits, the stream loses precision in every layer.
    eps      inside the root: rsqrt(mean_square + eps).
    weight   shape (hidden_size,), or none; by column.
    bias     none, and no mean is subtracted.
    saved    rrms, the reciprocal; not rms.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from . import arguments, launch
from .fused_add_rms_norm_forward_looped import fused_add_rms_norm_forward_looped_kernel
from .fused_add_rms_norm_forward_tiled import fused_add_rms_norm_forward_tiled_kernel


@triton.jit
def fused_add_rms_norm_forward_kernel(
    x_ptr,  # (n_rows, H), read
    residual_ptr,  # (n_rows, H), read
    y_ptr,  # (n_rows, H), written; may be x_ptr
    residual_out_ptr,  # (n_rows, H), written; may be residual_ptr
    weight_ptr,  # (H,), read; None without HAS_WEIGHT
    rrms_ptr,  # (n_rows,), float32, written; None without SAVE_RRMS
    row_stride,  # of x, in elements
    residual_row_stride,
    out_stride,  # of y, in elements
    residual_out_row_stride,
    H,
    eps,
    HAS_WEIGHT: tl.constexpr,
    SAVE_RRMS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,  # the smallest power of two >= H
):
    row = tl.cast(tl.program_id(0), tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H

    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(
        residual_ptr + row * residual_row_stride + cols, mask=mask, other=0.0
    ).to(tl.float32)  # fmt: skip

    # Added in float32, before squaring. The next block gets the rounded sum; this norm keeps the exact one.
    total = x + residual
    tl.store(
        residual_out_ptr + row * residual_out_row_stride + cols,
        total.to(residual_out_ptr.dtype.element_ty),
        mask=mask,
    )

    mean_square = tl.sum(total * total, axis=0) / H
    rrms = tl.rsqrt(mean_square + eps)
    if SAVE_RRMS:
        tl.store(rrms_ptr + row, rrms)

    y = total * rrms
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        y = y * weight
    tl.store(y_ptr + row * out_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def fused_add_rms_norm_forward(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float,
    *,
    save_rrms: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return (y, residual_out, rrms) with no graph behind them; rrms is None without save_rrms.

    What `operations.fused_add_rms_norm` calls, and documents: arguments, results and errors are the same.
    """
    _check(x, residual, weight, eps)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    residual_out = torch.empty(x.shape, dtype=residual.dtype, device=x.device)
    n_rows = arguments.count_rows(x)
    rrms = torch.empty(n_rows, dtype=torch.float32, device=x.device) if save_rrms else None
    if n_rows:
        _launch(
            arguments.rows_of(x), arguments.rows_of(residual),
            arguments.rows_of(y), arguments.rows_of(residual_out),
            weight, rrms, eps,
        )  # fmt: skip
    return y, residual_out, rrms


def fused_add_rms_norm_forward_(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float,
) -> None:
    """Overwrite x with y, and residual with residual_out.

    What `operations.fused_add_rms_norm_` calls, and documents: arguments and errors are the same.
    """
    _check(x, residual, weight, eps)
    x_rows = arguments.rows_in_place("x", x)
    residual_rows = arguments.rows_in_place("residual", residual)
    arguments.check_apart("x", x_rows, "residual", residual_rows)
    if weight is not None:
        arguments.check_apart("x", x_rows, "weight", weight.view(1, -1))
        arguments.check_apart("residual", residual_rows, "weight", weight.view(1, -1))
    if x_rows.shape[0]:
        _launch(x_rows, residual_rows, x_rows, residual_rows, weight, None, eps)


def _check(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> None:
    arguments.check_x(x)
    arguments.check_residual(residual, x)
    if weight is not None:
        arguments.check_weight(weight, x)
    arguments.check_eps(eps)
    arguments.check_runs_here(fused_add_rms_norm_forward_kernel, x)


# Lessons 4 and 6 have the other two kernels; only a tile of rows has to know where the rows end.
_KERNELS = {
    "one_tile": (fused_add_rms_norm_forward_kernel, False),
    "looped": (fused_add_rms_norm_forward_looped_kernel, False),
    "tiled": (fused_add_rms_norm_forward_tiled_kernel, True),
}


def _launch(
    x: torch.Tensor,
    residual: torch.Tensor,
    y: torch.Tensor,
    residual_out: torch.Tensor,
    weight: torch.Tensor | None,
    rrms: torch.Tensor | None,
    eps: float,
) -> None:
    """Run the kernel that suits the row width. All matrices are (n_rows, hidden_size) and checked."""
    how = launch.configure(x.shape[1], launch.wave_size_of(x.device))
    kernel, takes_rows = _KERNELS[how.kernel]
    rows = {"n_rows": x.shape[0], "TILE_ROWS": how.tile_rows} if takes_rows else {}
    with launch.on_device_of(x):
        kernel[(triton.cdiv(x.shape[0], how.tile_rows),)](
            x, residual, y, residual_out, weight, rrms,
            x.stride(0), residual.stride(0), y.stride(0), residual_out.stride(0),
            H=x.shape[1], eps=eps,
            HAS_WEIGHT=weight is not None, SAVE_RRMS=rrms is not None,
            BLOCK_SIZE=how.block_size, **rows, **how.options,
        )  # fmt: skip
