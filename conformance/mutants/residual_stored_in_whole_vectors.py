"""Mutant: in place, stores the residual in whole vectors of eight, so the last one runs past the row.

Every model width is a multiple of 8. Elsewhere the next row overwrites the zeros where rows are dense and
come later; after the last row they stay.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "MEM-WRITE"
SOURCE = "B45"
TRIGGER = "fp32, in place, one row of 5"
NEEDS = "cpu"


@triton.jit
def _kernel(
    x_ptr, residual_ptr, weight_ptr, x_row_stride, residual_row_stride, H, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    residual_at = residual_ptr + row * residual_row_stride + cols
    total = x + tl.load(residual_at, mask=mask, other=0.0).to(tl.float32)
    tl.store(residual_at, total.to(residual_ptr.dtype.element_ty), mask=cols < (H + 7) // 8 * 8)
    rrms = tl.rsqrt(tl.sum(total * total, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    y = (total * rrms * weight).to(x_ptr.dtype.element_ty)
    tl.store(x_ptr + row * x_row_stride + cols, y, mask=mask)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    if x.dim() != 2 or x.stride(1) != 1 or residual.stride(1) != 1:
        raise ValueError("x and residual must have two dimensions and adjacent columns")
    if len(x):
        n_rows, hidden_size = x.shape
        _kernel[(n_rows,)](
            x, residual, _tile.vector(weight, x), x.stride(0), residual.stride(0),
            hidden_size, eps, BLOCK_SIZE=_tile.width(hidden_size + 7),
        )  # fmt: skip
