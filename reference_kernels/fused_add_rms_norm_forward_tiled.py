"""Lesson 6. Fused add + RMSNorm, forward, for many short rows: one program, a tile of rows.

    total        = x + residual                          float32
    residual_out = round(total)
    rrms         = 1 / sqrt(mean(total**2) + eps)        one number per row of the tile
    y            = round(total * rrms * weight)

Lesson 2 on the tile of lesson 5; nothing new. Each of the four matrices has its own row stride, and all
four share one mask: row before the last, and column before the tail.

Bytes per row: read x and residual, write y and residual_out, 4 * hidden_size * itemsize.

    dtypes   as in lesson 2: float32 arithmetic on float16, bfloat16 or float32 storage.
    eps      inside the root: rsqrt(mean_square + eps).
    weight   shape (hidden_size,), or none; by column, loaded once for the whole tile.
    bias     none, and no mean is subtracted.
    saved    rrms, the reciprocal; not rms.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n_rows"])  # as in lesson 5
def fused_add_rms_norm_forward_tiled_kernel(
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
    n_rows,
    H,
    eps,
    HAS_WEIGHT: tl.constexpr,
    SAVE_RRMS: tl.constexpr,
    TILE_ROWS: tl.constexpr,  # rows a program takes, a power of two
    BLOCK_SIZE: tl.constexpr,  # the smallest power of two >= H
):
    rows = tl.cast(tl.program_id(0), tl.int64) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    cols = tl.arange(0, BLOCK_SIZE)
    row_mask = rows < n_rows
    col_mask = cols < H
    mask = row_mask[:, None] & col_mask[None, :]

    x_tile = x_ptr + rows[:, None] * row_stride + cols[None, :]
    residual_tile = residual_ptr + rows[:, None] * residual_row_stride + cols[None, :]
    x = tl.load(x_tile, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_tile, mask=mask, other=0.0).to(tl.float32)

    total = x + residual
    residual_out_tile = residual_out_ptr + rows[:, None] * residual_out_row_stride + cols[None, :]
    tl.store(residual_out_tile, total.to(residual_out_ptr.dtype.element_ty), mask=mask)

    mean_square = tl.sum(total * total, axis=1) / H
    rrms = tl.rsqrt(mean_square + eps)
    if SAVE_RRMS:
        tl.store(rrms_ptr + rows, rrms, mask=row_mask)

    y = total * rrms[:, None]
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + cols, mask=col_mask, other=0.0).to(tl.float32)
        y = y * weight[None, :]
    y_tile = y_ptr + rows[:, None] * out_stride + cols[None, :]
    tl.store(y_tile, y.to(y_ptr.dtype.element_ty), mask=mask)
