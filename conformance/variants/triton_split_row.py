"""Variant: two Triton kernels: several programs add up parts of a row, then others read the parts and scale.

Takes any row stride; other layouts are copied.
"""

import torch
import triton
import triton.language as tl

from conformance.mutants import _tile

CONVENTION = {"none": "one rounding"}
REFUSES = ()

BLOCK, MOST = 1024, 64


@triton.jit
def _partial_sums(x_ptr, partial_ptr, row_stride, H, BLOCK_SIZE: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    cols = part * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * row_stride + cols, mask=cols < H, other=0.0).to(tl.float32)
    tl.store(partial_ptr + row * tl.num_programs(1) + part, tl.sum(x * x, axis=0))


@triton.jit
def _scale(
    x_ptr, partial_ptr, weight_ptr, y_ptr, row_stride, H, eps,
    BLOCK_SIZE: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    parts = tl.arange(0, PARTS)
    known = parts < tl.num_programs(1)
    sums = tl.load(partial_ptr + row * tl.num_programs(1) + parts, mask=known, other=0.0)
    rrms = tl.rsqrt(tl.sum(sums, axis=0) / H + eps)
    cols = part * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * row_stride + cols, mask=cols < H, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=cols < H)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    n_rows, hidden_size = rows.shape
    if n_rows:
        block = max(BLOCK, _tile.width(-(-hidden_size // MOST)))
        parts = -(-hidden_size // block)
        partial = torch.empty((n_rows, parts), dtype=torch.float32, device=x.device)
        _partial_sums[(n_rows, parts)](rows, partial, rows.stride(0), hidden_size, BLOCK_SIZE=block)
        _scale[(n_rows, parts)](
            rows, partial, weight, y, rows.stride(0), hidden_size, eps,
            BLOCK_SIZE=block, PARTS=_tile.width(parts),
        )  # fmt: skip
    return y.reshape(x.shape)
