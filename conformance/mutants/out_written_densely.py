"""Mutant: writes out= at a row distance of H, whatever its row stride.

Right for a contiguous out; in a slice of a wider buffer it writes over what lies between the
rows.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "MEM-WRITE"
SOURCE = "specification: pass row_stride and out_stride as kernel arguments"
TRIGGER = "fp32, two rows, out a slice of wider rows"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm(x, weight, eps=1e-6, out=None):
    if out is None:
        return _formula.rms_norm(x, weight, eps)
    rows, weight, _ = _tile.prepare(x, weight, eps)
    if out.shape != x.shape or out.dtype != x.dtype or out.dim() != 2 or out.stride(1) != 1:
        raise ValueError("out must be like x, of two dimensions, with adjacent columns")
    if len(rows):
        n_rows, hidden_size = rows.shape
        block = _tile.width(hidden_size)
        _kernel[(n_rows,)](rows, out, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=block)
    return out
