"""Mutant: the statistic pass masks the load of x and forgets the mask of the residual's.

x past the row is 0, what lies behind the residual is not; between dense rows it is the next row's, of
the same size.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "MEM-READ"
SOURCE = "specification: mask tail bug, forgetting either mask; B40: an unmasked load of another tensor"
TRIGGER = "fp32, one row of 100 with NaN behind the residual"
NEEDS = "cpu"

CHUNK = 128  # short, so that what it reads is still mapped memory


@triton.jit
def _kernel(
    x_ptr, residual_ptr, y_ptr, residual_out_ptr, weight_ptr, x_row_stride, residual_row_stride, H, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    squares = 0.0
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        total = x + tl.load(residual_ptr + row * residual_row_stride + at).to(tl.float32)
        tl.store(residual_out_ptr + row * H + at, total.to(residual_out_ptr.dtype.element_ty), mask=at < H)
        squares += tl.sum(total * total, axis=0)
    rrms = tl.rsqrt(squares / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        residual = tl.load(residual_ptr + row * residual_row_stride + at, mask=at < H, other=0.0)
        weight = tl.load(weight_ptr + at, mask=at < H, other=0.0).to(tl.float32)
        y = ((x + residual.to(tl.float32)) * rrms * weight).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * H + at, y, mask=at < H)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    rows, added, weight, y, residual_out = _tile.prepare_fused(x, residual, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        _kernel[(n_rows,)](
            rows, added, y, residual_out, weight, rows.stride(0), added.stride(0), hidden_size, eps,
            BLOCK_SIZE=CHUNK,
        )  # fmt: skip
    return y.reshape(x.shape), residual_out.reshape(x.shape)
