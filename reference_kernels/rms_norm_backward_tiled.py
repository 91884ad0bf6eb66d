"""Lesson 10. RMSNorm, backward, for many short rows: a persistent program strides over tiles of rows.

    x_hat   = x * rrms,   a = dy * weight,   c = mean(a * x_hat)      one c per row of the tile
    dx      = round(rrms * (a - x_hat * c))
    dweight = sum over the rows of dy * x_hat, in two stages

Lesson 7 on the tile of lesson 5. New here: the share of dweight is kept for each row of the tile, as the
products come, and the rows of the tile are added once, after the last tile. A sum along axis 0 in every
step would make the warps wait for each other each time.

Bytes per row: read dy and x, write dx, 3 * hidden_size * itemsize.

    dtypes   as in lesson 7: float32 arithmetic on float16, bfloat16 or float32 storage.
    eps      inside the root, in the forward. Here it is not needed: it is in rrms.
    weight   shape (hidden_size,), or none; by column, loaded once for all tiles.
    bias     none, and no mean is subtracted; so there is no dbias either.
    saved    rrms, the reciprocal, is read, never computed again.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n_rows"])  # as in lesson 5
def rms_norm_backward_tiled_kernel(
    dy_ptr,  # (n_rows, H), read
    x_ptr,  # (n_rows, H), read; for the fused op what it stored as residual_out
    weight_ptr,  # (H,), read; None without HAS_WEIGHT
    rrms_ptr,  # (n_rows,), float32, read
    dresidual_out_ptr,  # (n_rows, H), read; None without HAS_DRESIDUAL_OUT
    dx_ptr,  # (n_rows, H), written; None without WANTS_DX
    dresidual_ptr,  # (n_rows, H), written; None without WANTS_DRESIDUAL
    partials_ptr,  # (number of programs, H), float32, written; None without WANTS_DWEIGHT
    dy_row_stride,  # in elements; 0 where dy is one row, expanded
    row_stride,  # of x, in elements
    dresidual_out_row_stride,
    dx_row_stride,
    dresidual_row_stride,
    n_rows,
    H,
    HAS_WEIGHT: tl.constexpr,
    HAS_DRESIDUAL_OUT: tl.constexpr,
    WANTS_DX: tl.constexpr,
    WANTS_DRESIDUAL: tl.constexpr,
    WANTS_DWEIGHT: tl.constexpr,
    STAGES: tl.constexpr,  # how many tiles are under way at a time
    TILE_ROWS: tl.constexpr,  # rows of a tile, a power of two
    BLOCK_SIZE: tl.constexpr,  # the smallest power of two >= H
):
    program = tl.cast(tl.program_id(0), tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    col_mask = cols < H
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + cols, mask=col_mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([TILE_ROWS, BLOCK_SIZE], dtype=tl.float32)

    n_tiles = tl.cdiv(n_rows, TILE_ROWS)
    for tile in tl.range(tl.program_id(0), n_tiles, tl.num_programs(0), num_stages=STAGES):
        rows = tl.cast(tile, tl.int64) * TILE_ROWS + tl.arange(0, TILE_ROWS)
        row_mask = rows < n_rows
        mask = row_mask[:, None] & col_mask[None, :]
        dy_tile = dy_ptr + rows[:, None] * dy_row_stride + cols[None, :]
        x_tile = x_ptr + rows[:, None] * row_stride + cols[None, :]
        dy = tl.load(dy_tile, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_tile, mask=mask, other=0.0).to(tl.float32)
        rrms = tl.load(rrms_ptr + rows, mask=row_mask, other=0.0)[:, None]
        x_hat = x * rrms
        if WANTS_DWEIGHT:
            dweight += dy * x_hat
        if WANTS_DX or WANTS_DRESIDUAL:
            a = dy
            if HAS_WEIGHT:
                a = dy * weight[None, :]
            c = tl.sum(a * x_hat, axis=1)[:, None] / H
            dx = rrms * (a - x_hat * c)
            if HAS_DRESIDUAL_OUT:
                stream = dresidual_out_ptr + rows[:, None] * dresidual_out_row_stride + cols[None, :]
                dx += tl.load(stream, mask=mask, other=0.0).to(tl.float32)
            if WANTS_DX:
                dx_tile = dx_ptr + rows[:, None] * dx_row_stride + cols[None, :]
                tl.store(dx_tile, dx.to(dx_ptr.dtype.element_ty), mask=mask)
            if WANTS_DRESIDUAL:
                dresidual_tile = dresidual_ptr + rows[:, None] * dresidual_row_stride + cols[None, :]
                tl.store(dresidual_tile, dx.to(dresidual_ptr.dtype.element_ty), mask=mask)

    if WANTS_DWEIGHT:
        total = tl.sum(dweight, axis=0)
        tl.store(partials_ptr + program * H + cols, total, mask=col_mask)
