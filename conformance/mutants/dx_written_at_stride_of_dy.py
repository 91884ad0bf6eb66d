"""Mutant: writes dx, which it has allocated itself, with the row stride of dy.

A dy that comes from the next layer is dense, like dx. One cut out of a wider tensor leads past the end
of dx, and one that is expanded over the rows leaves all but the first unwritten.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile_gradient

BREAKS = "MEM-WRITE"
SOURCE = "B27: a fresh dX addressed with dY's row stride"
TRIGGER = "fp32, two rows, dy a slice of wider rows"
NEEDS = "cpu"

NEAR = 1024  # elements past the end of dx, which its guard still holds


@triton.jit
def _kernel(
    dy_ptr, x_ptr, weight_ptr, rrms_ptr, dx_ptr, partial_ptr, dy_row_stride, x_row_stride, n_rows, H,
    BLOCK_ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0).to(tl.int64)
    rows = block * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = (rows < n_rows)[:, None] & (cols < H)[None, :]
    dy = tl.load(dy_ptr + rows[:, None] * dy_row_stride + cols[None, :], mask=inside, other=0.0)
    x = tl.load(x_ptr + rows[:, None] * x_row_stride + cols[None, :], mask=inside, other=0.0)
    dy, x = dy.to(tl.float32), x.to(tl.float32)
    rrms = tl.load(rrms_ptr + rows, mask=rows < n_rows, other=0.0)[:, None]
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)[None, :]
    x_hat = x * rrms
    a = dy * weight
    c = tl.sum(a * x_hat, axis=1)[:, None] / H
    dx = (rrms * (a - x_hat * c)).to(dx_ptr.dtype.element_ty)
    tl.store(dx_ptr + rows[:, None] * dy_row_stride + cols[None, :], dx, mask=inside)
    tl.store(partial_ptr + block * H + cols, tl.sum(dy * x_hat, axis=0), mask=cols < H)


def _launch(dy, x, weight, rrms, dx, partial):
    n_rows, hidden_size = x.shape
    programs, rows, block = _tile_gradient.tile(n_rows, hidden_size)
    if (dy.stride(0) - hidden_size) * n_rows > NEAR:
        dy = dy.contiguous()
    _kernel[(programs,)](
        dy, x, weight, rrms, dx, partial, dy.stride(0), x.stride(0), n_rows, hidden_size,
        BLOCK_ROWS=rows, BLOCK_SIZE=block,
    )  # fmt: skip


OP = _tile_gradient.op(_launch)


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return OP(x, weight, eps)
