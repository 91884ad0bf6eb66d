"""Mutant: rows wider than 1024 are read a second time for the output, and that pass forgets the
residual.

The statistic and the residual written back are right; narrow rows, kept in one tile, are right
throughout.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "RESIDUAL-ADDED"
SOURCE = "specification: the post-add value is normalised; written from the two-pass loop"
TRIGGER = "fp32, H = 1025, any residual that is not zero"
NEEDS = "cpu"

CHUNK = 1024


@triton.jit
def _kernel(
    x_ptr, residual_ptr, y_ptr, residual_out_ptr, weight_ptr,
    x_row_stride, residual_row_stride, H, eps, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    squares = 0.0
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        residual_at = residual_ptr + row * residual_row_stride + at
        total = x + tl.load(residual_at, mask=at < H, other=0.0).to(tl.float32)
        kept = total.to(residual_out_ptr.dtype.element_ty)
        tl.store(residual_out_ptr + row * H + at, kept, mask=at < H)
        squares += tl.sum(total * total, axis=0)
    rrms = tl.rsqrt(squares / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < H, other=0.0).to(tl.float32)
        y = (x * rrms * weight).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * H + at, y, mask=at < H)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    if x.shape[-1] <= CHUNK:
        return _formula.fused_add_rms_norm(x, residual, weight, eps)
    rows, added, weight, y, residual_out = _tile.prepare_fused(x, residual, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        _kernel[(n_rows,)](
            rows, added, y, residual_out, weight, rows.stride(0), added.stride(0),
            hidden_size, eps, BLOCK_SIZE=CHUNK,
        )  # fmt: skip
    return y.reshape(x.shape), residual_out.reshape(x.shape)
