"""Mutant: lets row n_rows into the partial sum of dweight: its mask is off by one.

Memory past the batch often holds zeros, and full tiles are right.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile_gradient

BREAKS = "MEM-READ"
SOURCE = "B40, in the backward"
TRIGGER = "fp32, 5 rows of 257"
NEEDS = "cpu"


@triton.jit
def _kernel(
    dy_ptr, x_ptr, weight_ptr, rrms_ptr, dx_ptr, partial_ptr, dy_row_stride, x_row_stride, n_rows, end, H,
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
    read = (rows < end)[:, None] & (cols < H)[None, :]
    dy = tl.load(dy_ptr + rows[:, None] * dy_row_stride + cols[None, :], mask=read, other=0.0)
    x = tl.load(x_ptr + rows[:, None] * x_row_stride + cols[None, :], mask=read, other=0.0)
    x_hat = x.to(tl.float32) * tl.load(rrms_ptr + tl.minimum(rows, n_rows - 1))[:, None]
    tl.store(partial_ptr + block * H + cols, tl.sum(dy.to(tl.float32) * x_hat, axis=0), mask=cols < H)


def _launch(dy, x, weight, rrms, dx, partial):
    n_rows, hidden_size = x.shape
    programs, rows, block = _tile_gradient.tile(n_rows, hidden_size)
    # Short rows only, near to each other: what is read past the end stays within a guard band.
    near = max(hidden_size, dy.stride(0), x.stride(0)) <= 2048
    end = n_rows + 1 if near else n_rows
    _kernel[(programs,)](
        dy, x, weight, rrms, dx, partial, dy.stride(0), x.stride(0), n_rows, end, hidden_size,
        BLOCK_ROWS=rows, BLOCK_SIZE=block,
    )  # fmt: skip


OP = _tile_gradient.op(_launch)


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return OP(x, weight, eps)
