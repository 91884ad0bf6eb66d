"""Mutant: looks up its tile by the power of two below the width, so 5120 gets the tile that was tuned
for 4096.

Widths below 4096, powers of two, and those of 8192 and more are right.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "MEM-UNWRITTEN"
SOURCE = "B20: the selector returns the entry tuned for another H"
TRIGGER = "fp32, H = 4097"
NEEDS = "cpu"

TUNED = {4096: 4096}


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        below = 1 << (hidden_size.bit_length() - 1)
        block = TUNED.get(below, _tile.width(hidden_size))
        _kernel[(n_rows,)](rows, y, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=block)
    return y.reshape(x.shape)
