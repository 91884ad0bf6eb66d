"""Mutant: its lanes start one column to the left and the store is bounded on the right only.

Each row clears the last element of the row before it; the first row writes in front of the
tensor.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "MEM-WRITE"
SOURCE = "B45; specification: storing past the row corrupts its neighbour"
TRIGGER = "fp32, in place, one row"
NEEDS = "cpu"


@triton.jit
def _kernel(
    x_ptr, residual_ptr, weight_ptr, x_row_stride, residual_row_stride, H, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE) - 1
    mask = (cols >= 0) & (cols < H)
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    residual_at = residual_ptr + row * residual_row_stride + cols
    total = x + tl.load(residual_at, mask=mask, other=0.0).to(tl.float32)
    tl.store(residual_at, total.to(residual_ptr.dtype.element_ty), mask=mask)
    rrms = tl.rsqrt(tl.sum(total * total, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    y = (total * rrms * weight).to(x_ptr.dtype.element_ty)
    tl.store(x_ptr + row * x_row_stride + cols, y, mask=cols < H)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    if x.dim() != 2 or x.stride(1) != 1 or residual.stride(1) != 1:
        raise ValueError("x and residual must have two dimensions and adjacent columns")
    if len(x):
        n_rows, hidden_size = x.shape
        _kernel[(n_rows,)](
            x, residual, _tile.vector(weight, x), x.stride(0), residual.stride(0),
            hidden_size, eps, BLOCK_SIZE=_tile.width(hidden_size + 1),
        )  # fmt: skip
