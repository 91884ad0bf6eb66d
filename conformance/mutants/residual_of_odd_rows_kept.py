"""Mutant: in place, takes two rows a program and writes the sum back for the first of them only.

y is right in every row. One row, as in decoding, is right altogether, and so is what a test sees that
looks at y or at the first row.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "RESIDUAL-WRITTEN"
SOURCE = "B60, for some of the rows"
TRIGGER = "fp32, in place, two rows"
NEEDS = "cpu"


@triton.jit
def _kernel(
    x_ptr, residual_ptr, weight_ptr, x_row_stride, residual_row_stride, n_rows, H, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * 2
    rows = first + tl.arange(0, 2)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = (rows < n_rows)[:, None] & (cols < H)[None, :]
    at_x = x_ptr + rows[:, None] * x_row_stride + cols[None, :]
    at_residual = residual_ptr + rows[:, None] * residual_row_stride + cols[None, :]
    x = tl.load(at_x, mask=inside, other=0.0).to(tl.float32)
    total = x + tl.load(at_residual, mask=inside, other=0.0).to(tl.float32)
    written = inside & (rows == first)[:, None]
    tl.store(at_residual, total.to(residual_ptr.dtype.element_ty), mask=written)
    rrms = tl.rsqrt(tl.sum(total * total, axis=1) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
    y = (total * rrms[:, None] * weight[None, :]).to(x_ptr.dtype.element_ty)
    tl.store(at_x, y, mask=inside)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    if x.dim() != 2 or x.stride(1) != 1 or residual.stride(1) != 1:
        raise ValueError("x and residual must have two dimensions and adjacent columns")
    if len(x):
        n_rows, hidden_size = x.shape
        _kernel[(-(-n_rows // 2),)](
            x, residual, _tile.vector(weight, x), x.stride(0), residual.stride(0), n_rows,
            hidden_size, eps, BLOCK_SIZE=_tile.width(hidden_size),
        )  # fmt: skip
