"""Mutant: in place, rows wider than 1024 add x to the residual a second time when they are re-
read.

The first pass has already stored the sum there. The residual left behind is right, and so are
narrow rows.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "RESIDUAL-ADDED"
SOURCE = "known wrong formula res_double_add; written for the two-pass loop in place"
TRIGGER = "fp32, in place, H = 1025"
NEEDS = "cpu"

CHUNK = 1024


@triton.jit
def _kernel(
    x_ptr, residual_ptr, weight_ptr, x_row_stride, residual_row_stride, H, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    squares = 0.0
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        residual_at = residual_ptr + row * residual_row_stride + at
        total = x + tl.load(residual_at, mask=at < H, other=0.0).to(tl.float32)
        tl.store(residual_at, total.to(residual_ptr.dtype.element_ty), mask=at < H)
        squares += tl.sum(total * total, axis=0)
    rrms = tl.rsqrt(squares / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        residual_at = residual_ptr + row * residual_row_stride + at
        total = x + tl.load(residual_at, mask=at < H, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < H, other=0.0).to(tl.float32)
        y = (total * rrms * weight).to(x_ptr.dtype.element_ty)
        tl.store(x_ptr + row * x_row_stride + at, y, mask=at < H)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    if x.shape[-1] <= CHUNK:
        y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
        x.copy_(y)
        residual.copy_(residual_out)
        return
    if x.dim() != 2 or x.stride(1) != 1 or residual.stride(1) != 1:
        raise ValueError("x and residual must have two dimensions and adjacent columns")
    if len(x):
        n_rows, hidden_size = x.shape
        _kernel[(n_rows,)](
            x, residual, _tile.vector(weight, x), x.stride(0), residual.stride(0),
            hidden_size, eps, BLOCK_SIZE=CHUNK,
        )  # fmt: skip
