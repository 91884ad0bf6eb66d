"""Mutant: a tile of several short rows sums over both of its axes, so four rows share one
statistic.

Only rows of at most 128 elements take this path, and rows of equal scale hide it. It divides by
4 * H.
"""

import triton
import triton.language as tl

from conformance.mutants import _formula, _tile

BREAKS = "FORMULA-ROWS"
SOURCE = "rule of the suite: leakage across rows; written from it"
TRIGGER = "fp32, 4 rows of 8 of different scale"
NEEDS = "cpu"

ROWS = 4
WIDEST = 128


@triton.jit
def _kernel(
    x_ptr, y_ptr, weight_ptr, row_stride, n_rows, H, eps,
    BLOCK_ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * BLOCK_ROWS
    rows = first + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_SIZE)
    inside = (rows < n_rows)[:, None] & (cols < H)[None, :]
    x = tl.load(x_ptr + rows[:, None] * row_stride + cols[None, :], mask=inside, other=0.0)
    x = x.to(tl.float32)
    present = tl.minimum(n_rows - first, BLOCK_ROWS)
    rrms = tl.rsqrt(tl.sum(tl.sum(x * x, axis=1), axis=0) / (present * H) + eps)
    weight = tl.load(weight_ptr + cols, mask=cols < H, other=0.0).to(tl.float32)
    y = (x * rrms * weight[None, :]).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + rows[:, None] * H + cols[None, :], y, mask=inside)


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] > WIDEST:
        return _formula.rms_norm(x, weight, eps)
    rows, weight, y = _tile.prepare(x, weight, eps)
    if len(rows):
        n_rows, hidden_size = rows.shape
        _kernel[(-(-n_rows // ROWS),)](
            rows, y, weight, rows.stride(0), n_rows, hidden_size, eps,
            BLOCK_ROWS=ROWS, BLOCK_SIZE=_tile.width(hidden_size),
        )  # fmt: skip
    return y.reshape(x.shape)
