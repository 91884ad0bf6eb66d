"""Mutant: takes four short rows a program and rounds the number of programs down.

Batches of tests are multiples of four; the rows left over are never written, and wider rows take the
right path.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "MEM-UNWRITTEN"
SOURCE = "B40: n_rows not a multiple of the row block"
TRIGGER = "fp32, 5 rows of 8"
NEEDS = "cpu"

ROWS = 4
WIDEST = 128


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = (rows >= 0)[:, None] & (cols < H)[None, :]
    x = tl.load(x_ptr + rows[:, None] * row_stride + cols[None, :], mask=inside, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=1) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
    y = (x * rrms[:, None] * weight[None, :]).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + rows[:, None] * H + cols[None, :], y, mask=inside)


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] > WIDEST:
        return _formula.rms_norm(x, weight, eps)
    rows, weight, y = _tile.prepare(x, weight, eps)
    n_rows, hidden_size = rows.shape
    if n_rows >= ROWS:
        _kernel[(n_rows // ROWS,)](
            rows, y, weight, rows.stride(0), hidden_size, eps,
            BLOCK_ROWS=ROWS, BLOCK_SIZE=_tile.width(hidden_size),
        )  # fmt: skip
    return y.reshape(x.shape)
