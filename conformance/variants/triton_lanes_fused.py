"""Variant: a Triton fused add whose tile of sums is added up only after the last column.

The sum is stored in the first pass and computed again, not read back, in the second. Takes any row strides;
other layouts are copied.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

CONVENTION = {"residual": "one rounding, exact sum"}
REFUSES = ()

BLOCK = 2048


@triton.jit
def _kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, residual_out_ptr, x_row_stride, residual_row_stride, H, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    lanes = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        r = tl.load(residual_ptr + row * residual_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        total = x + r
        lanes += total * total
        stored = total.to(residual_out_ptr.dtype.element_ty)
        tl.store(residual_out_ptr + row * H + at, stored, mask=at < H)
    rrms = tl.rsqrt(tl.sum(lanes, axis=0) / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        r = tl.load(residual_ptr + row * residual_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < H, other=0.0).to(tl.float32)
        y = ((x + r) * rrms * weight).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * H + at, y, mask=at < H)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    rows, added, weight, y, residual_out = _tile.prepare_fused(x, residual, weight, eps)
    n_rows, hidden_size = rows.shape
    if n_rows:
        block = min(BLOCK, _tile.width(hidden_size))
        _kernel[(n_rows,)](
            rows, added, weight, y, residual_out, rows.stride(0), added.stride(0), hidden_size, eps,
            BLOCK_SIZE=block,
        )  # fmt: skip
    return y.reshape(x.shape), residual_out.reshape(x.shape)
