"""Variant: a Triton kernel with several short rows in a tile, and a two-pass loop above 4096 columns.

Takes any row stride; other layouts are copied.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

CONVENTION = {"none": "one rounding"}
REFUSES = ()

TILE = 4096


@triton.jit
def _one_tile(
    x_ptr, y_ptr, weight_ptr, row_stride, n_rows, H, eps,
    BLOCK_ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = (rows < n_rows)[:, None] & (cols < H)[None, :]
    x = tl.load(x_ptr + rows[:, None] * row_stride + cols[None, :], mask=inside, other=0.0)
    x = x.to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=1) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
    y = (x * rrms[:, None] * weight[None, :]).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + rows[:, None] * H + cols[None, :], y, mask=inside)


@triton.jit
def _two_passes(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    total = 0.0
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        total += tl.sum(x * x, axis=0)
    rrms = tl.rsqrt(total / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < H, other=0.0).to(tl.float32)
        y = (x * rrms * weight).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * H + at, y, mask=at < H)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    n_rows, hidden_size = rows.shape
    block = _tile.width(hidden_size)
    if n_rows and block <= TILE:
        many = TILE // block
        _one_tile[(-(-n_rows // many),)](
            rows, y, weight, rows.stride(0), n_rows, hidden_size, eps,
            BLOCK_ROWS=many, BLOCK_SIZE=block,
        )  # fmt: skip
    elif n_rows:
        _two_passes[(n_rows,)](rows, y, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=TILE)
    return y.reshape(x.shape)
