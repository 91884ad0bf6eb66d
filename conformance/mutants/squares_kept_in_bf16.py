"""Mutant: keeps the squares in bf16 until they are added, which fp32 then does exactly.

The range is that of fp32, so nothing overflows; what is lost is most of 24 bits, and errors of many
squares nearly cancel.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "ACCURACY-SUM"
SOURCE = "specification: treating bf16 as a free fp32 substitute, squaring loses precision before overflow"
TRIGGER = "fp32, one row of 33"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    squares = (x * x).to(tl.bfloat16)
    rrms = tl.rsqrt(tl.sum(squares.to(tl.float32), axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        block = _tile.width(hidden_size)
        _kernel[(n_rows,)](rows, y, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=block)
    return y.reshape(x.shape)
