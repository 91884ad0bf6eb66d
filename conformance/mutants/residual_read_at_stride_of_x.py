"""Mutant: addresses the residual with the row stride of x.

Right where both have the same layout, which is how tests make them.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "STRIDE-RESIDUAL"
SOURCE = "B27: one tensor addressed with another's row stride"
TRIGGER = "fp32, x contiguous, the residual a slice of wider rows"
NEEDS = "cpu"


@triton.jit
def _kernel(
    x_ptr, residual_ptr, y_ptr, residual_out_ptr, weight_ptr,
    x_row_stride, H, eps, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * x_row_stride + cols, mask=mask, other=0.0)
    total = x + residual.to(tl.float32)
    kept = total.to(residual_out_ptr.dtype.element_ty)
    tl.store(residual_out_ptr + row * H + cols, kept, mask=mask)
    rrms = tl.rsqrt(tl.sum(total * total, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    y = (total * rrms * weight).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row * H + cols, y, mask=mask)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    rows, added, weight, y, residual_out = _tile.prepare_fused(x, residual, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        # Beyond a row of padding x is copied first, so that the wrong address is still mapped memory.
        if not hidden_size <= rows.stride(0) <= 2 * hidden_size + 256:
            rows = rows.contiguous()
        _kernel[(n_rows,)](
            rows, added, y, residual_out, weight, rows.stride(0), hidden_size, eps,
            BLOCK_SIZE=_tile.width(hidden_size),
        )  # fmt: skip
    return y.reshape(x.shape), residual_out.reshape(x.shape)
