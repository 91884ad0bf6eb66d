"""Variant: a Triton fused add that overwrites x and the residual, some rows a program, in one pass.

Dense rows are written where they are, any row stride; other layouts go through a copy.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile, _tile_gradient

CONVENTION = {"residual_in_place": "one rounding, exact sum"}
REFUSES = ()


@triton.jit
def _kernel(
    x_ptr, residual_ptr, weight_ptr, x_row_stride, residual_row_stride, n_rows, H, eps,
    BLOCK_ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = (rows < n_rows)[:, None] & (cols < H)[None, :]
    x_at = x_ptr + rows[:, None] * x_row_stride + cols[None, :]
    residual_at = residual_ptr + rows[:, None] * residual_row_stride + cols[None, :]
    total = tl.load(x_at, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(residual_at, mask=inside, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(total * total, axis=1) / H + eps)[:, None]
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)[None, :]
    tl.store(residual_at, total.to(residual_ptr.dtype.element_ty), mask=inside)
    tl.store(x_at, (total * rrms * weight).to(x_ptr.dtype.element_ty), mask=inside)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    rows, sums = _tile.rows(x), _tile.rows(residual)
    n_rows, hidden_size = rows.shape
    if n_rows:
        programs, block_rows, block_size = _tile_gradient.tile(n_rows, hidden_size)
        _kernel[(programs,)](
            rows, sums, _tile.vector(weight, x), rows.stride(0), sums.stride(0), n_rows, hidden_size, eps,
            BLOCK_ROWS=block_rows, BLOCK_SIZE=block_size,
        )  # fmt: skip
    for own, filled in ((x, rows), (residual, sums)):
        if own.data_ptr() != filled.data_ptr():
            own.copy_(filled.reshape(own.shape))
