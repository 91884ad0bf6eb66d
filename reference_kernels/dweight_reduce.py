"""Lesson 8. The second stage of dweight: adds up what the persistent programs left.

    dweight = round(sum over the programs of partials)

Lesson 7 leaves one row of float32 partial sums a program. This kernel adds them by column, in an order that
is fixed, and rounds once, to weight's dtype. New here: a program owns columns, not rows. Neighbouring
lanes read neighbouring columns, so the reads are as wide as those of a row kernel; each step takes
BLOCK_ROWS rows, and lanes that share a column meet in one sum along axis 0 at the end.

Bytes: the partial sums, once, 4 * n_partials * hidden_size. With one or two programs a multiprocessor that is
a few megabytes, fresh in the L2 cache; starting the kernel costs as much as its bytes.

    dtypes   partials: float32. dweight: float16, bfloat16 or float32, weight's own.
    weight   dweight has its shape, (hidden_size,): summed over all rows, never over columns.
    bias     none; so there is no dbias.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n_partials"])  # it follows the number of rows where these are few
def dweight_reduce_kernel(
    partials_ptr,  # (n_partials, H), float32, read
    dweight_ptr,  # (H,), written
    n_partials,
    H,
    BLOCK_ROWS: tl.constexpr,  # rows of partial sums a step, a power of two
    BLOCK_SIZE: tl.constexpr,  # columns a program owns, a power of two
):
    cols = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    lanes = tl.arange(0, BLOCK_ROWS)
    col_mask = cols < H

    total = tl.zeros([BLOCK_ROWS, BLOCK_SIZE], dtype=tl.float32)
    for first in range(0, n_partials, BLOCK_ROWS):
        rows = tl.cast(first, tl.int64) + lanes
        mask = (rows < n_partials)[:, None] & col_mask[None, :]
        total += tl.load(partials_ptr + rows[:, None] * H + cols[None, :], mask=mask, other=0.0)
    dweight = tl.sum(total, axis=0)
    tl.store(dweight_ptr + cols, dweight.to(dweight_ptr.dtype.element_ty), mask=col_mask)
