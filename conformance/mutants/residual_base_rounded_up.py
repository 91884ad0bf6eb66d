"""Mutant: moves the residual's pointer up to the next 16 bytes, so that a misaligned residual is read
some columns late, with zeros at the end.

x is tested for alignment and takes a scalar path; the residual of tests is a tensor of its own, which is
always aligned.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "ALIGN-RESIDUAL"
SOURCE = "B32: base alignment, separately for each tensor"
TRIGGER = "fp32, residual = buf[1:].view(2, 8)"
NEEDS = "cpu"


@triton.jit
def _kernel(
    x_ptr, residual_ptr, y_ptr, residual_out_ptr, weight_ptr, x_row_stride, residual_row_stride, late, H,
    eps, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    read = cols + late
    residual = tl.load(residual_ptr + row * residual_row_stride + read, mask=read < H, other=0.0)
    total = x + residual.to(tl.float32)
    tl.store(residual_out_ptr + row * H + cols, total.to(residual_out_ptr.dtype.element_ty), mask=mask)
    rrms = tl.rsqrt(tl.sum(total * total, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (total * rrms * weight).to(y_ptr.dtype.element_ty), mask=mask)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    rows, added, weight, y, residual_out = _tile.prepare_fused(x, residual, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        late = -added.data_ptr() % 16 // added.element_size()
        _kernel[(n_rows,)](
            rows, added, y, residual_out, weight, rows.stride(0), added.stride(0), late, hidden_size, eps,
            BLOCK_SIZE=_tile.width(hidden_size),
        )  # fmt: skip
    return y.reshape(x.shape), residual_out.reshape(x.shape)
