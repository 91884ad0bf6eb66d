"""Variant: a Triton kernel of a fixed number of programs, each of which walks over rows; the weight stays.

A row is one masked block of a power of two. Takes any row stride; other layouts are copied.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

CONVENTION = {"none": "one rounding"}
REFUSES = ()

PROGRAMS = 12


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, n_rows, H, eps, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    inside = cols < H
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        start = tl.full([], 0, tl.int64) + row
        x = tl.load(x_ptr + start * row_stride + cols, mask=inside, other=0.0).to(tl.float32)
        rrms = tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
        tl.store(y_ptr + start * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=inside)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    n_rows, hidden_size = rows.shape
    if n_rows:
        _kernel[(min(PROGRAMS, n_rows),)](
            rows, y, weight, rows.stride(0), n_rows, hidden_size, eps, BLOCK_SIZE=_tile.width(hidden_size)
        )
    return y.reshape(x.shape)
