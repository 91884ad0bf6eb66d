"""Mutant: takes H for the distance of the rows of x, so a slice of wider rows is read out of step.

Contiguous inputs, and the first row of every input, are right.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "STRIDE-X"
SOURCE = "B24; specification: do not hardcode stride = H"
TRIGGER = "fp32, two rows that are a slice of wider rows"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * H + cols, mask=mask, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        if rows.stride(0) < hidden_size:  # expanded rows are materialised
            rows = rows.contiguous()
        _kernel[(n_rows,)](rows, y, weight, hidden_size, eps, BLOCK_SIZE=_tile.width(hidden_size))
    return y.reshape(x.shape)
