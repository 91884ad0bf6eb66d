"""Mutant: the second pass loads the weight without the chunk's start, so every chunk gets the
first 1024 weights.

Rows up to 1024 columns are right, and rows of any width where the weight is constant.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "FORMULA-WEIGHT-INDEX"
SOURCE = "specification: the corresponding weight chunk"
TRIGGER = "fp32, H = 1025"
NEEDS = "cpu"

CHUNK = 1024


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    total = 0.0
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        total += tl.sum(x * x, axis=0)
    rrms = tl.rsqrt(total / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=at < H, other=0.0).to(tl.float32)
        y = (x * rrms * weight).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * H + at, y, mask=at < H)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        _kernel[(n_rows,)](rows, y, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=CHUNK)
    return y.reshape(x.shape)
