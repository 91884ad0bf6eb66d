"""Lesson 12. RMSNorm, backward, for rows wider still, first of two kernels: one number per row.

    c = mean(dy * weight * x * rrms)          saved for lesson 13, float32

A row of 65536 numbers and its share of dweight fill more registers than a multiprocessor has. Once c is
known, though, no column needs any other: dx and dweight of some columns follow from dy and x of these
columns, rrms and c. So the work is cut in two. This kernel reads the rows for c and writes nothing else;
the next one takes the columns in blocks.

Bytes per row: read dy and x, 2 * hidden_size * itemsize, before the 3 * hidden_size * itemsize of lesson 13:
five thirds of what a row costs that fits.

    dtypes   as in lesson 7: float32 arithmetic on float16, bfloat16 or float32 storage. c is float32.
    eps      inside the root, in the forward. Here it is not needed: it is in rrms.
    weight   shape (hidden_size,), or none; by column.
    bias     none, and no mean is subtracted; so there is no dbias either.
    saved    rrms, the reciprocal, is read, never computed again.
"""

import triton
import triton.language as tl


@triton.jit
def rms_norm_backward_projection_kernel(
    dy_ptr,  # (n_rows, H), read
    x_ptr,  # (n_rows, H), read; for the fused op what it stored as residual_out
    weight_ptr,  # (H,), read; None without HAS_WEIGHT
    rrms_ptr,  # (n_rows,), float32, read
    projection_ptr,  # (n_rows,), float32, written: c
    dy_row_stride,  # in elements; 0 where dy is one row, expanded
    row_stride,  # of x, in elements
    H,
    HAS_WEIGHT: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,  # columns a step, a power of two
):
    row = tl.cast(tl.program_id(0), tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE)
    rrms = tl.load(rrms_ptr + row)

    # One partial sum per lane, as in lesson 3. Each product takes rrms at once: a * x alone can overflow
    # where a * x_hat does not.
    products = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for chunk in range(tl.cdiv(H, BLOCK_SIZE)):
        cols = chunk * BLOCK_SIZE + lanes
        mask = cols < H
        a = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        if HAS_WEIGHT:
            a = a * tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        products += a * (x * rrms)
    tl.store(projection_ptr + row, tl.sum(products, axis=0) / H)
