"""Mutant: the wrapper passes the weight's pointer without its stride, so a stepped weight is
read densely.

A parameter is contiguous; a column of a weight matrix, or every second of a fused one, is not.
"""

import torch
import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "STRIDE-WEIGHT"
SOURCE = "B27: 13 layouts failed with a non-contiguous weight"
TRIGGER = "fp32, weight = buffer[::2]"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + cols, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm(x, weight, eps=1e-6):
    rows, dense, y = _tile.prepare(x, weight, eps)
    # An expanded weight has one element to read: that one is materialised.
    if weight is None or weight.stride(0) == 0:
        weight = dense
    if len(rows):
        n_rows, hidden_size = rows.shape
        block = _tile.width(hidden_size)
        _kernel[(n_rows,)](rows, y, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=block)
    return torch.reshape(y, x.shape)
