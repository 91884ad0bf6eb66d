"""Lesson 11. RMSNorm, backward, for rows twice too wide: two programs a row, each with one half of it.

    x_hat   = x * rrms,   a = dy * weight,   c = mean(a * x_hat)      over both halves
    dx      = round(rrms * (a - x_hat * c))                           of the program's own half
    dweight = sum over the rows of dy * x_hat, in two stages          of the program's own half

The kernel of lesson 7 needs a row and its share of dweight in registers at once, and from some width on
they spill. New here: two programs walk over the same rows. Each reads both halves for c, keeps dx and
dweight of its own half alone, and forgets the other half as soon as its products are added. Nothing is
exchanged, so nobody waits; the price is that each half is read twice.

Bytes per row: read dy and x, write dx, 3 * hidden_size * itemsize, as in lesson 7. The second reading
comes from the L2 cache, because both programs are at the same row at about the same time.

    dtypes   as in lesson 7: float32 arithmetic on float16, bfloat16 or float32 storage.
    eps      inside the root, in the forward. Here it is not needed: it is in rrms.
    weight   shape (hidden_size,), or none; by column, loaded once for all rows.
    bias     none, and no mean is subtracted; so there is no dbias either.
    saved    rrms, the reciprocal, is read, never computed again.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n_rows"])  # as in lesson 5
def rms_norm_backward_halved_kernel(
    dy_ptr,  # (n_rows, H), read
    x_ptr,  # (n_rows, H), read; for the fused op what it stored as residual_out
    weight_ptr,  # (H,), read; None without HAS_WEIGHT
    rrms_ptr,  # (n_rows,), float32, read
    dresidual_out_ptr,  # (n_rows, H), read; None without HAS_DRESIDUAL_OUT
    dx_ptr,  # (n_rows, H), written; None without WANTS_DX
    dresidual_ptr,  # (n_rows, H), written; None without WANTS_DRESIDUAL
    partials_ptr,  # (number of programs / 2, H), float32, written; None without WANTS_DWEIGHT
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
    BLOCK_SIZE: tl.constexpr,  # columns of a half, a power of two: H <= 2 * BLOCK_SIZE
):
    # Neighbouring programs start together: they are the two halves of a row.
    walker = tl.cast(tl.program_id(0) // 2, tl.int64)
    half = tl.program_id(0) % 2
    cols = half * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    others = (1 - half) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    others_mask = others < H
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        others_weight = tl.load(weight_ptr + others, mask=others_mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK_SIZE], dtype=tl.float32)

    for step in tl.range(tl.program_id(0) // 2, n_rows, tl.num_programs(0) // 2, num_stages=STAGES):
        row = tl.cast(step, tl.int64)
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rrms = tl.load(rrms_ptr + row)
        x_hat = x * rrms
        if WANTS_DWEIGHT:
            dweight += dy * x_hat
        if WANTS_DX or WANTS_DRESIDUAL:
            others_a = tl.load(
                dy_ptr + row * dy_row_stride + others, mask=others_mask, other=0.0
            ).to(tl.float32)  # fmt: skip
            others_x = tl.load(
                x_ptr + row * row_stride + others, mask=others_mask, other=0.0
            ).to(tl.float32)  # fmt: skip
            a = dy
            if HAS_WEIGHT:
                a = dy * weight
                others_a = others_a * others_weight
            c = tl.sum(a * x_hat + others_a * (others_x * rrms), axis=0) / H
            dx = rrms * (a - x_hat * c)
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
