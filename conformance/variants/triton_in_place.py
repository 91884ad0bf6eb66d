"""Variant: a Triton fused add that overwrites x and the residual, a row a program, in one pass.

Dense rows are written where they are, any row stride; other layouts go through a copy.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

CONVENTION = {"residual_in_place": "one rounding, exact sum"}
REFUSES = ()


@triton.jit
def _kernel(
    x_ptr, residual_ptr, weight_ptr, x_row_stride, residual_row_stride, H, eps, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = cols < H
    x_at = x_ptr + row * x_row_stride + cols
    residual_at = residual_ptr + row * residual_row_stride + cols
    total = tl.load(x_at, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(residual_at, mask=inside, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(total * total, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    tl.store(residual_at, total.to(residual_ptr.dtype.element_ty), mask=inside)
    tl.store(x_at, (total * rrms * weight).to(x_ptr.dtype.element_ty), mask=inside)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    rows, sums = _tile.rows(x), _tile.rows(residual)
    n_rows, hidden_size = rows.shape
    if n_rows:
        _kernel[(n_rows,)](
            rows, sums, _tile.vector(weight, x), rows.stride(0), sums.stride(0), hidden_size, eps,
            BLOCK_SIZE=_tile.width(hidden_size),
        )  # fmt: skip
    for own, filled in ((x, rows), (residual, sums)):
        if own.data_ptr() != filled.data_ptr():
            own.copy_(filled.reshape(own.shape))
