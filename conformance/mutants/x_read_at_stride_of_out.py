"""Mutant: where out= is given, its row stride serves for x as well.

Right without out=, and with an out of x's layout; a slice of a wider output reads the wrong rows
of x.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

# Labelled STRIDE-OUT at first. With an out of a 64-bit row stride it reads far outside x, and the process
# dies: a crash is named before anything else.
BREAKS = "RUN-COMPLETES"
SOURCE = "specification: row_stride and out_stride if different"
TRIGGER = "fp32, x contiguous, out a slice of wider rows"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    y = (x * rrms * weight).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row * stride + cols, y, mask=mask)


def rms_norm(x, weight, eps=1e-6, out=None):
    if out is None:
        return _formula.rms_norm(x, weight, eps)
    rows, weight, _ = _tile.prepare(x, weight, eps)
    if out.shape != x.shape or out.dtype != x.dtype or out.dim() != 2 or out.stride(1) != 1:
        raise ValueError("out must be like x, of two dimensions, with adjacent columns")
    if len(rows):
        n_rows, hidden_size = rows.shape
        block = _tile.width(hidden_size)
        rows = rows.contiguous()
        _kernel[(n_rows,)](rows, out, weight, out.stride(0), hidden_size, eps, BLOCK_SIZE=block)
    return out
