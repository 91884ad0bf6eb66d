"""Mutant: stores the first columns of a misaligned out one by one, and then its vectors from column 0
again.

The read loop needs no such head, so only the address of out decides. What torch allocates is aligned; an
out that is a slice of a larger buffer may not be.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "ALIGN-OUT"
SOURCE = "B33: aligned read path, unaligned vector store"
TRIGGER = "fp32, out = buf[1:].view(2, 8)"
NEEDS = "cpu"


@triton.jit
def _kernel(x_ptr, y_ptr, weight_ptr, row_stride, out_stride, H, head, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * row_stride + cols, mask=cols < H, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
    y = (x * rrms * weight).to(y_ptr.dtype.element_ty)
    out_at = y_ptr + row * out_stride
    tl.store(out_at + cols, y, mask=cols < tl.minimum(head, H))
    tl.store(out_at + head + cols, y, mask=head + cols < H)


def rms_norm(x, weight, eps=1e-6, out=None):
    if out is None:
        return _formula.rms_norm(x, weight, eps)
    rows, weight, _ = _tile.prepare(x, weight, eps)
    if out.shape != x.shape or out.dtype != x.dtype or out.dim() != 2 or out.stride(1) != 1:
        raise ValueError("out must be like x, of two dimensions, with adjacent columns")
    if len(rows):
        n_rows, hidden_size = rows.shape
        head = -out.data_ptr() % 16 // out.element_size()
        _kernel[(n_rows,)](
            rows, out, weight, rows.stride(0), out.stride(0), hidden_size, head, eps,
            BLOCK_SIZE=_tile.width(hidden_size),
        )  # fmt: skip
    return out
