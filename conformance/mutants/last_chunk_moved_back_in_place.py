"""Mutant: in place, moves the last chunk of a long row back so that it is full, over columns that it
has already normalised.

Out of place that is harmless: the same columns are written twice with the same values. In place the
second reading finds y. Multiples of 1024 have no overlap.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "TAIL-COLUMNS"
SOURCE = "specification: the two-pass loop with a masked tail; written for it in place"
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
        kept = total.to(residual_ptr.dtype.element_ty)
        tl.store(residual_at, kept, mask=at < H)
        tl.store(x_ptr + row * x_row_stride + at, kept, mask=at < H)
        squares += tl.sum(total * total, axis=0)
    rrms = tl.rsqrt(squares / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = tl.minimum(start, H - BLOCK_SIZE) + cols
        total = tl.load(x_ptr + row * x_row_stride + at).to(tl.float32)
        weight = tl.load(weight_ptr + at).to(tl.float32)
        tl.store(x_ptr + row * x_row_stride + at, (total * rrms * weight).to(x_ptr.dtype.element_ty))


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    if x.shape[-1] < CHUNK or x.dtype != residual.dtype:
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
