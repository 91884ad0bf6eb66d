"""Mutant: sums dweight in waves of 64 columns on a device whose waves have 32, so that half of the
columns stay 0.

Right on the hardware it was written for; dx does not go that way.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile_gradient

BREAKS = "DWEIGHT-ROWS"
SOURCE = "B95"
TRIGGER = "fp32, H = 33"
NEEDS = "cpu"


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
    tl.store(dx_ptr + rows[:, None] * H + cols[None, :], dx, mask=inside)
    added = tl.where(cols % 64 < 32, tl.sum(dy * x_hat, axis=0), 0.0)
    tl.store(partial_ptr + block * H + cols, added, mask=cols < H)


def _launch(dy, x, weight, rrms, dx, partial):
    n_rows, hidden_size = x.shape
    programs, rows, block = _tile_gradient.tile(n_rows, hidden_size)
    _kernel[(programs,)](
        dy, x, weight, rrms, dx, partial, dy.stride(0), x.stride(0), n_rows, hidden_size,
        BLOCK_ROWS=rows, BLOCK_SIZE=block,
    )  # fmt: skip


OP = _tile_gradient.op(_launch)


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return OP(x, weight, eps)
