"""Mutant: a program takes eight rows one after the other and clears its sum of squares only before the
first.

The first of every eight rows is right, and so is decoding, which has one row. Later rows come out smaller
the more rows came before.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "FORMULA-ROWS"
SOURCE = "specification: one program per row; written for a loop over several"
TRIGGER = "fp32, two rows"
NEEDS = "cpu"

ROWS = 8


@triton.jit
def _kernel(
    x_ptr, y_ptr, weight_ptr, row_stride, n_rows, H, eps, ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    first = tl.program_id(0).to(tl.int64) * ROWS
    cols = tl.arange(0, BLOCK_SIZE)
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
    total = 0.0
    for row in range(first, tl.minimum(first + ROWS, n_rows)):
        x = tl.load(x_ptr + row * row_stride + cols, mask=cols < H, other=0.0).to(tl.float32)
        total += tl.sum(x * x, axis=0)
        rrms = tl.rsqrt(total / H + eps)
        tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=cols < H)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        _kernel[(-(-n_rows // ROWS),)](
            rows, y, weight, rows.stride(0), n_rows, hidden_size, eps,
            ROWS=ROWS, BLOCK_SIZE=_tile.width(hidden_size),
        )  # fmt: skip
    return y.reshape(x.shape)
