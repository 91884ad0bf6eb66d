"""Lesson 5. RMSNorm, forward, for many short rows: one program, a tile of rows.

    rrms = 1 / sqrt(mean(x**2) + eps)        one number per row of the tile
    y    = round(x * rrms * weight)

Bytes per row: read x, write y, 2 * hidden_size * itemsize, as in lesson 1. But a row of 128 bfloat16
numbers is 256 bytes: a program that moves one such row is over before it has filled the memory pipes, and
starting it costs more than its bytes. So a program takes TILE_ROWS rows. New here: a second mask, because
the last tile may reach past the last row, and a sum along axis 1, which keeps the rows apart.

    dtypes   as in lesson 1: float32 arithmetic on float16, bfloat16 or float32 storage.
    eps      inside the root: rsqrt(mean_square + eps).
    weight   shape (hidden_size,), or none; by column, loaded once for the whole tile.
    bias     none, and no mean is subtracted.
    saved    rrms, the reciprocal; not rms.
"""

import triton
import triton.language as tl


# n_rows is the one argument that changes with every batch: without this, a multiple of 16 and a batch
# of one row would each be compiled again.
@triton.jit(do_not_specialize=["n_rows"])
def rms_norm_forward_tiled_kernel(
    x_ptr,  # (n_rows, H), read
    y_ptr,  # (n_rows, H), written
    weight_ptr,  # (H,), read; None without HAS_WEIGHT
    rrms_ptr,  # (n_rows,), float32, written; None without SAVE_RRMS
    row_stride,  # of x, in elements
    out_stride,  # of y, in elements
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
    x = tl.load(x_tile, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=1) / H
    rrms = tl.rsqrt(mean_square + eps)
    if SAVE_RRMS:
        tl.store(rrms_ptr + rows, rrms, mask=row_mask)

    y = x * rrms[:, None]
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + cols, mask=col_mask, other=0.0).to(tl.float32)
        y = y * weight[None, :]
    y_tile = y_ptr + rows[:, None] * out_stride + cols[None, :]
    tl.store(y_tile, y.to(y_ptr.dtype.element_ty), mask=mask)
