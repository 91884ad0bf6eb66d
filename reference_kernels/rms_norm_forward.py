"""Lesson 1. RMSNorm, forward: one program, one row, one tile.

    rrms = 1 / sqrt(mean(x**2) + eps)        one number per row, float32
    y    = round(x * rrms * weight)

Bytes per row: read x, write y, 2 * hidden_size * itemsize; weight is read once from memory and then
comes from cache. Two multiplications an element cost nothing beside that: the kernel is as fast as
memory is, provided that x is read once. It is: the whole row sits in the registers of one program from
the load to the store.

    dtypes   x, y: float16, bfloat16 or float32, the same. weight: any of the three. All arithmetic,
             the sum above all, is float32: a float16 square overflows from |x| = 256 on.
    eps      inside the root: rsqrt(mean_square + eps).
    weight   shape (hidden_size,), or none. It multiplies as it is; there is no "1 + weight".
    bias     none, and no mean is subtracted.
    saved    rrms, the reciprocal: the very number that the row was multiplied with. Not rms.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from . import arguments, launch
from .rms_norm_forward_looped import rms_norm_forward_looped_kernel
from .rms_norm_forward_tiled import rms_norm_forward_tiled_kernel


@triton.jit
def rms_norm_forward_kernel(
    x_ptr,  # (n_rows, H), read
    y_ptr,  # (n_rows, H), written
    weight_ptr,  # (H,), read; None without HAS_WEIGHT
    rrms_ptr,  # (n_rows,), float32, written; None without SAVE_RRMS
    row_stride,  # of x, in elements
    out_stride,  # of y, in elements
    H,
    eps,
    HAS_WEIGHT: tl.constexpr,
    SAVE_RRMS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,  # the smallest power of two >= H
):
    # 64-bit, because row * row_stride passes 2**31 on large tensors.
    row = tl.cast(tl.program_id(0), tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H

    # Lanes past the row load 0 and add nothing to the sum; so divide by H, never by BLOCK_SIZE.
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / H
    rrms = tl.rsqrt(mean_square + eps)
    if SAVE_RRMS:
        tl.store(rrms_ptr + row, rrms)

    y = x * rrms
    if HAS_WEIGHT:
        # By column only. A row term here is the classic mistake: every row has the same weight.
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        y = y * weight
    # The mask of the load: a store past the tail would hit the next row.
    tl.store(y_ptr + row * out_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm_forward(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float,
    *,
    save_rrms: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return (y, rrms) with no graph behind them; rrms is None without save_rrms.

    What `operations.rms_norm` calls, and documents: arguments, results and errors are the same.
    """
    arguments.check_x(x)
    if weight is not None:
        arguments.check_weight(weight, x)
    arguments.check_eps(eps)
    arguments.check_runs_here(rms_norm_forward_kernel, x)

    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n_rows = arguments.count_rows(x)
    rrms = torch.empty(n_rows, dtype=torch.float32, device=x.device) if save_rrms else None
    if n_rows:
        _launch(arguments.rows_of(x), arguments.rows_of(y), weight, rrms, eps)
    return y, rrms


# The same norm, three ways to lay rows over the machine. Lessons 3 and 5 have the other two kernels; only
# a tile of rows has to know where the rows end.
_KERNELS = {
    "one_tile": (rms_norm_forward_kernel, False),
    "looped": (rms_norm_forward_looped_kernel, False),
    "tiled": (rms_norm_forward_tiled_kernel, True),
}


def _launch(
    x: torch.Tensor,
    y: torch.Tensor,
    weight: torch.Tensor | None,
    rrms: torch.Tensor | None,
    eps: float,
) -> None:
    """Run the kernel that suits the row width. x and y are (n_rows, hidden_size) and checked."""
    how = launch.configure(x.shape[1], launch.wave_size_of(x.device))
    kernel, takes_rows = _KERNELS[how.kernel]
    rows = {"n_rows": x.shape[0], "TILE_ROWS": how.tile_rows} if takes_rows else {}
    with launch.on_device_of(x):
        kernel[(triton.cdiv(x.shape[0], how.tile_rows),)](
            x, y, weight, rrms, x.stride(0), y.stride(0),
            H=x.shape[1], eps=eps,
            HAS_WEIGHT=weight is not None, SAVE_RRMS=rrms is not None,
            BLOCK_SIZE=how.block_size, **rows, **how.options,
        )  # fmt: skip
