"""Lesson 4. Fused add + RMSNorm, forward, for rows wider than a tile: two passes over the row.

    pass 1   sum of (x + residual)**2, chunk by chunk; then rrms = 1 / sqrt(sum / hidden_size + eps)
    pass 2   total = x + residual once more; residual_out = round(total); y = round(total * rrms * weight)

Read after lessons 2 and 3. New here: where to store residual_out. In pass 1 it would be natural, and
wrong in place: pass 2 would find the rounded sum where the residual was and add x to it a second time. So
nothing is stored before pass 2, which adds again what it reads again. The exact sum is normalised, as in
lesson 2, whether the outputs are new tensors or x and residual themselves.

Bytes per row: read x and residual, write y and residual_out, as in lesson 2, and read both inputs once
more, mostly from the L2 cache.

    dtypes   as in lesson 2: float32 arithmetic on float16, bfloat16 or float32 storage.
    eps      inside the root: rsqrt(mean_square + eps).
    weight   shape (hidden_size,), or none; by column.
    bias     none, and no mean is subtracted.
    saved    rrms, the reciprocal; not rms.
"""

import triton
import triton.language as tl


@triton.jit
def fused_add_rms_norm_forward_looped_kernel(
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
    BLOCK_SIZE: tl.constexpr,  # columns a step, a power of two
):
    row = tl.cast(tl.program_id(0), tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE)
    # Both passes must cover the same columns, so both loops take their bounds from this one name.
    n_chunks = tl.cdiv(H, BLOCK_SIZE)

    squares = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for chunk in range(n_chunks):
        cols = chunk * BLOCK_SIZE + lanes
        mask = cols < H
        x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        residual = tl.load(
            residual_ptr + row * residual_row_stride + cols, mask=mask, other=0.0
        ).to(tl.float32)  # fmt: skip
        total = x + residual
        squares += total * total
    mean_square = tl.sum(squares, axis=0) / H
    rrms = tl.rsqrt(mean_square + eps)
    if SAVE_RRMS:
        tl.store(rrms_ptr + row, rrms)

    for chunk in range(n_chunks):
        cols = chunk * BLOCK_SIZE + lanes
        mask = cols < H
        x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        residual = tl.load(
            residual_ptr + row * residual_row_stride + cols, mask=mask, other=0.0
        ).to(tl.float32)  # fmt: skip
        total = x + residual
        tl.store(
            residual_out_ptr + row * residual_out_row_stride + cols,
            total.to(residual_out_ptr.dtype.element_ty),
            mask=mask,
        )
        y = total * rrms
        if HAS_WEIGHT:
            weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
            y = y * weight
        tl.store(y_ptr + row * out_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)
