"""Lesson 13. RMSNorm, backward, for rows wider still, second of two kernels: blocks of columns.

    x_hat   = x * rrms,   a = dy * weight,   c as lesson 12 left it
    dx      = round(rrms * (a - x_hat * c))
    dweight = sum over the rows of dy * x_hat, in two stages

A program owns a block of columns, and strides over rows like the one of lesson 7, with its share of dweight
of these columns in registers. There is nothing left to add up along the row, so nothing limits the width.

New here is the direction: from the last row to the first. Lesson 12's kernel has gone from the first to the
last just before, and what the L2 cache still holds of its reading is the end.

Bytes per row: read dy and x, write dx, 3 * hidden_size * itemsize, after the 2 of lesson 12.

    dtypes   as in lesson 7: float32 arithmetic on float16, bfloat16 or float32 storage.
    eps      inside the root, in the forward. Here it is not needed: it is in rrms.
    weight   shape (hidden_size,), or none; by column, loaded once for all rows.
    bias     none, and no mean is subtracted; so there is no dbias either.
    saved    rrms, the reciprocal, is read, never computed again.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n_rows"])  # as in lesson 5
def rms_norm_backward_columns_kernel(
    dy_ptr,  # (n_rows, H), read
    x_ptr,  # (n_rows, H), read; for the fused op what it stored as residual_out
    weight_ptr,  # (H,), read; None without HAS_WEIGHT
    rrms_ptr,  # (n_rows,), float32, read
    projection_ptr,  # (n_rows,), float32, read: c; None without WANTS_DX and WANTS_DRESIDUAL
    dresidual_out_ptr,  # (n_rows, H), read; None without HAS_DRESIDUAL_OUT
    dx_ptr,  # (n_rows, H), written; None without WANTS_DX
    dresidual_ptr,  # (n_rows, H), written; None without WANTS_DRESIDUAL
    partials_ptr,  # (programs along the rows, H), float32, written; None without WANTS_DWEIGHT
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
    STAGES: tl.constexpr,  # how many rows are under way at a time
    BLOCK_SIZE: tl.constexpr,  # columns a program owns, a power of two
):
    # Axis 0 counts the blocks of a row, so that programs which start together read neighbouring bytes.
    cols = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    walker = tl.cast(tl.program_id(1), tl.int64)
    mask = cols < H
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK_SIZE], dtype=tl.float32)

    for step in tl.range(tl.program_id(1), n_rows, tl.num_programs(1), num_stages=STAGES):
        row = tl.cast(n_rows - 1 - step, tl.int64)
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rrms = tl.load(rrms_ptr + row)
        x_hat = x * rrms
        if WANTS_DWEIGHT:
            dweight += dy * x_hat
        if WANTS_DX or WANTS_DRESIDUAL:
            a = dy
            if HAS_WEIGHT:
                a = dy * weight
            dx = rrms * (a - x_hat * tl.load(projection_ptr + row))
            if HAS_DRESIDUAL_OUT:
                dx += tl.load(
                    dresidual_out_ptr + row * dresidual_out_row_stride + cols, mask=mask, other=0.0
                ).to(tl.float32)  # fmt: skip
            if WANTS_DX:
                tl.store(dx_ptr + row * dx_row_stride + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
            if WANTS_DRESIDUAL:
                tl.store(
                    dresidual_ptr + row * dresidual_row_stride + cols,
                    dx.to(dresidual_ptr.dtype.element_ty),
                    mask=mask,
                )

    if WANTS_DWEIGHT:
        tl.store(partials_ptr + walker * H + cols, dweight, mask=mask)
