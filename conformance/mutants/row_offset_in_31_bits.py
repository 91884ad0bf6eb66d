"""Mutant: the row's offset is kept in 31 bits, so a row that starts 2**31 elements on is read
from the start.

Takes more than 4 GiB of bf16, or a very large row stride, to show.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "STRIDE-64BIT"
SOURCE = "B50; B53"
TRIGGER = "fp32, two rows at a distance of 2**31 + 64 elements"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    offset = (row * row_stride) & 0x7FFFFFFF
    x = tl.load(x_ptr + offset + cols, mask=mask, other=0.0).to(tl.float32)
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
