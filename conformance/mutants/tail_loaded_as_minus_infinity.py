"""Mutant: loads the lanes past the end of the row as minus infinity, as a softmax does.

A width that is a power of two has no such lanes. Elsewhere the sum is infinite, and y is 0: a test that
looks for NaN finds none.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "TAIL-COLUMNS"
SOURCE = "specification: other=0.0 on the input load, not -inf, not nan"
TRIGGER = "fp32, H = 5"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=float("-inf")).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        block = _tile.width(hidden_size)
        _kernel[(n_rows,)](rows, y, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=block)
    return y.reshape(x.shape)
