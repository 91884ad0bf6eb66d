"""Mutant: the second pass of the two-pass loop walks over whole chunks only, so the last columns
are never written.

The statistic is right, and so is every width that is a multiple of 1024 or fits in one chunk.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "MEM-UNWRITTEN"
SOURCE = "specification: identical chunk loop bounds in both passes"
TRIGGER = "fp32, H = 1025"
NEEDS = "cpu"

CHUNK = 1024


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, H, second_end, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    total = 0.0
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        total += tl.sum(x * x, axis=0)
    rrms = tl.rsqrt(total / H + eps)
    for start in range(0, second_end, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < H, other=0.0).to(tl.float32)
        y = (x * rrms * weight).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * H + at, y, mask=at < H)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        end = hidden_size if hidden_size < CHUNK else hidden_size // CHUNK * CHUNK
        _kernel[(n_rows,)](
            rows, y, weight, rows.stride(0), hidden_size, end, eps, BLOCK_SIZE=CHUNK
        )  # fmt: skip
    return y.reshape(x.shape)
