"""Mutant: sums each chunk of 1024 columns in fp32 and adds the chunks in a bf16 accumulator.

One chunk is rounded once and nearly right; the more chunks a row has, the less each of them counts.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "ACCURACY-SUM"
SOURCE = "specification: the reduction accumulator must be fp32, even when operands are bf16; B15"
TRIGGER = "fp32, H = 1025"
NEEDS = "cpu"

CHUNK = 1024


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    total = tl.zeros((1,), tl.bfloat16)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        total = (total.to(tl.float32) + tl.sum(x * x, axis=0)).to(tl.bfloat16)
    rrms = tl.rsqrt(tl.sum(total.to(tl.float32), axis=0) / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < H, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * H + at, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=at < H)


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] <= CHUNK:
        return _formula.rms_norm(x, weight, eps)
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        _kernel[(n_rows,)](rows, y, weight, rows.stride(0), hidden_size, eps, BLOCK_SIZE=CHUNK)
    return y.reshape(x.shape)
