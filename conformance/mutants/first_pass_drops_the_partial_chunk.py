"""Mutant: the first pass of the two-pass loop sums whole chunks of 1024 only; the second goes to the
end.

Multiples of 1024, as model widths are, and rows of one chunk are right. Every column is written.
"""

import triton
import triton.language as tl

from conformance.mutants import _tile

BREAKS = "TAIL-COLUMNS"
SOURCE = "specification: identical chunk loop bounds in both passes"
TRIGGER = "fp32, H = 1025 with a large last column"
NEEDS = "cpu"

CHUNK = 1024


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, first_end, H, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    squares = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, first_end, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        squares += x * x
    rrms = tl.rsqrt(tl.sum(squares, axis=0) / H + eps)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < H, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * H + at, (x * rrms * weight).to(y_ptr.dtype.element_ty), mask=at < H)


def rms_norm(x, weight, eps=1e-6):
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        first_end = hidden_size if hidden_size < CHUNK else hidden_size // CHUNK * CHUNK
        _kernel[(n_rows,)](
            rows, y, weight, rows.stride(0), first_end, hidden_size, eps, BLOCK_SIZE=CHUNK
        )  # fmt: skip
    return y.reshape(x.shape)
