"""Mutant: divides the sum of squares by BLOCK_SIZE, the next power of two, instead of by H.

Equal at 4096 and 8192; at 5120 the output is too large by a factor of 1.26, only seen by who
tests that width.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "FORMULA-DIVISOR"
SOURCE = "specification: the denominator is H; known wrong formula div_pow2"
TRIGGER = "fp32, H = 5"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / BLOCK_SIZE + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        block = _tile.width(hidden_size)
        _kernel[(n_rows,)](rows, y, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=block)
    return y.reshape(x.shape)
