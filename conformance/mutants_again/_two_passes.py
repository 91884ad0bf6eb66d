"""The kernel of `kernels`: two passes over a row, each in chunks; right where it is told right numbers."""

import triton
import triton.language as tl


@triton.jit
def two_passes(
    x_ptr, y_ptr, weight_ptr, x_row_stride, H, summed, divisor, inside, outside, gain, bias, offset,
    row_step, ROOT: tl.constexpr, REVERSED: tl.constexpr, WEIGHTED: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    lanes = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, summed, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < summed, other=0.0).to(tl.float32)
        lanes += x * x
    mean = tl.sum(lanes, axis=0) / divisor + inside
    if ROOT:
        mean = tl.sqrt(mean)
    scale = gain / (mean + outside)
    for start in range(0, H, BLOCK_SIZE):
        at = start + cols
        x = tl.load(x_ptr + row * x_row_stride + at, mask=at < H, other=0.0).to(tl.float32)
        y = x * scale
        if WEIGHTED:
            weight_at = row * row_step + at
            if REVERSED:
                weight_at = H - 1 - at
            readable = (weight_at >= 0) & (weight_at < H)
            y *= tl.load(weight_ptr + weight_at, mask=readable, other=0.0).to(tl.float32) + offset
        tl.store(y_ptr + row * H + at, (y + bias).to(y_ptr.dtype.element_ty), mask=at < H)
