"""Mutant: starts the second stage of dweight for the first 1024 columns only.

Small tests are narrower than that.
"""

import torch
import triton
import triton.language as tl

from conformance.mutants import _formula, _tile_gradient

BREAKS = "DWEIGHT-ROWS"
SOURCE = "specification: a separate launch over feature columns"
TRIGGER = "fp32, H = 1025"
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
    tl.store(partial_ptr + block * H + cols, tl.sum(dy * x_hat, axis=0), mask=cols < H)


@triton.jit
def _second_stage(partial_ptr, dweight_ptr, programs, H, BLOCK_ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    rows = tl.arange(0, BLOCK_ROWS)
    total = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, programs, BLOCK_ROWS):
        inside = (start + rows < programs)[:, None] & (cols < H)[None, :]
        at = (start + rows[:, None]) * H + cols[None, :]
        total += tl.sum(tl.load(partial_ptr + at, mask=inside, other=0.0), axis=0)
    tl.store(dweight_ptr + cols, total, mask=cols < H)


def _launch(dy, x, weight, rrms, dx, partial):
    n_rows, hidden_size = x.shape
    programs, rows, block = _tile_gradient.tile(n_rows, hidden_size)
    _kernel[(programs,)](
        dy, x, weight, rrms, dx, partial, dy.stride(0), x.stride(0), n_rows, hidden_size,
        BLOCK_ROWS=rows, BLOCK_SIZE=block,
    )  # fmt: skip


def _added_up(partial):
    programs, hidden_size = partial.shape
    dweight = torch.zeros(hidden_size, dtype=torch.float32, device=partial.device)
    if programs:
        _second_stage[(1,)](partial, dweight, programs, hidden_size, BLOCK_ROWS=4, BLOCK_SIZE=1024)
    return dweight


OP = _tile_gradient.op(_launch, _added_up)


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return OP(x, weight, eps)
