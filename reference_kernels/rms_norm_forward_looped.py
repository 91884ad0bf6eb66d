"""Lesson 3. RMSNorm, forward, for rows wider than a tile: two passes over the row.

    pass 1   sum of x**2, chunk by chunk; then rrms = 1 / sqrt(sum / hidden_size + eps)
    pass 2   y = round(x * rrms * weight), chunk by chunk

Bytes per row: read x, write y, as in lesson 1, and read x once more. The second reading mostly comes
from the L2 cache, since the same program has just been over it; it is still the price of a row that does
not fit in registers, and why lesson 1 is used wherever it can be.

    dtypes   as in lesson 1: float32 arithmetic on float16, bfloat16 or float32 storage.
    eps      inside the root: rsqrt(mean_square + eps).
    weight   shape (hidden_size,), or none; by column.
    bias     none, and no mean is subtracted.
    saved    rrms, the reciprocal; not rms.
"""

import triton
import triton.language as tl


@triton.jit
def rms_norm_forward_looped_kernel(
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
    BLOCK_SIZE: tl.constexpr,  # columns a step, a power of two
):
    row = tl.cast(tl.program_id(0), tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE)
    # Both passes must cover the same columns, so both loops take their bounds from this one name.
    n_chunks = tl.cdiv(H, BLOCK_SIZE)

    # One partial sum per lane, added up once at the end: a sum across lanes in every step would make
    # all warps wait for each other, and adds no accuracy.
    squares = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for chunk in range(n_chunks):
        cols = chunk * BLOCK_SIZE + lanes
        mask = cols < H
        x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        squares += x * x
    mean_square = tl.sum(squares, axis=0) / H
    rrms = tl.rsqrt(mean_square + eps)
    if SAVE_RRMS:
        tl.store(rrms_ptr + row, rrms)

    for chunk in range(n_chunks):
        cols = chunk * BLOCK_SIZE + lanes
        mask = cols < H
        x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        y = x * rrms
        if HAS_WEIGHT:
            weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
            y = y * weight
        tl.store(y_ptr + row * out_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)
