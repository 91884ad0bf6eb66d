"""Guarded memory: where a tensor lies in a buffer, what surrounds it, and what changed there.

A buffer is

    band | element gap element gap … element | band

with `BAND` bytes on each side. Bands and gaps hold canaries, a NaN with a payload that no arithmetic
produces, so that a kernel that reads them gets NaN and a kernel that writes them is seen. An output that
the suite supplies starts as `POISON`, another such NaN, so that an element nobody wrote is seen too.

Images of buffers are numpy byte arrays, made and compared on the suite's side; the worker only copies
them in and out. A layout with a row stride beyond 2**31 covers gigabytes of which only windows around the
rows are ever touched: such a buffer has several segments, and an image holds these, one after the other.
Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

BAND = 16384
ALIGNMENT = 256  # what device allocators give; the element at offset 0 of a layout is aligned to it
# As fp16, bf16 and (repeated) fp32, fp64: quiet NaNs, each with a payload of its own. Arithmetic can hand a
# NaN's payload on; what is read beside one tensor must not look untouched when it is stored beside another.
CANARY = {
    "x": 0xFFE5, "residual": 0xFFE9, "weight": 0xFFED, "out": 0xFFF1, "residual_out": 0xFFF5,
    "dy": 0xFFE1, "dresidual_out": 0xFFDD,
}  # fmt: skip
ALLOCATED = 0xFFF9  # around what the implementation allocates
POISON = 0xFFD3

ITEMSIZE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip

_INT64_ROW_STRIDE = 2**31 + 64
_ROW_PADDING = 64  # elements between the rows of a slice; keeps rows of 16-bit elements aligned


def bits_dtype(dtype: str) -> np.dtype:
    """The unsigned integer type that holds the bits of one element of `dtype`."""
    return np.dtype(f"<u{ITEMSIZE[dtype]}")


def pattern(word: int, dtype: str) -> int:
    """`word` (16 bits) repeated to the width of one element of `dtype`."""
    size = ITEMSIZE[dtype]
    if size == 1:
        return word & 0xFF
    return int.from_bytes(word.to_bytes(2, "little") * (size // 2), "little")


@dataclass(frozen=True)
class Placed:
    """One tensor in its buffer.

    strides and offset count elements; offset is from the buffer's first byte. segments: the (start, length)
    byte windows of the buffer that an image holds.
    """

    role: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    nbytes: int
    segments: tuple[tuple[int, int], ...]

    @property
    def image_bytes(self) -> int:
        return sum(length for _, length in self.segments)

    def to_json(self) -> dict[str, Any]:
        return {
            "dtype": self.dtype, "shape": self.shape, "strides": self.strides, "offset": self.offset,
        }  # fmt: skip

    def prefix(self, n_rows: int) -> Placed:
        """The same memory seen as its first rows only (rank 2)."""
        shape = (n_rows, *self.shape[1:])
        return Placed(self.role, self.dtype, shape, self.strides, self.offset, self.nbytes, self.segments)


def _row_major(shape: tuple[int, ...], row_stride: int, column_stride: int = 1) -> tuple[int, ...]:
    """Strides of rows that follow each other at `row_stride`, whatever the rank."""
    if len(shape) == 1:
        return (column_stride,)
    strides = [column_stride, row_stride]
    for length in reversed(shape[1:-1]):
        strides.append(strides[-1] * max(length, 1))
    return tuple(reversed(strides))


def _layout(name: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """(strides, first element) of a layout, in elements from an aligned address."""
    hidden = shape[-1]
    sliced = -(-hidden // 64) * 64 + _ROW_PADDING
    if name == "contiguous":
        return _row_major(shape, hidden), 0
    if name == "odd_base":
        return _row_major(shape, hidden), 1
    if name == "row_slice":
        return _row_major(shape, sliced), 0
    if name == "column_offset":
        return _row_major(shape, sliced), 1
    if name == "column_step":
        return _row_major(shape, 2 * sliced, 2), 0
    if name == "int64_stride":
        return _row_major(shape, _INT64_ROW_STRIDE), 0
    if name == "expanded":
        return (*(0 for _ in shape[:-1]), 1 if len(shape) > 1 else 0), 0
    if name == "one_element":
        return tuple(0 for _ in shape), 0
    if name == "transposed":
        rows = 1
        for length in shape[:-1]:
            rows *= length
        leading = _row_major(shape[:-1], shape[-2]) if len(shape) > 2 else (1,)
        return (*leading, max(rows, 1)), 0
    if name == "split_heads":
        heads, head_dim = shape[-2], shape[-1]
        return (*_row_major(shape[:-1], 3 * heads * head_dim)[:-1], head_dim, 1), 0
    raise ValueError(f"layout {name!r} is not one of conformance.model.LAYOUTS")


def place(role: str, shape: tuple[int, ...], dtype: str, layout: str = "contiguous") -> Placed:
    """Lay a tensor of `shape` out in a guarded buffer of its own."""
    strides, first = _layout(layout, shape)
    size = ITEMSIZE[dtype]
    lead = BAND // size  # BAND is a multiple of ALIGNMENT, so element `lead` is aligned
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if min(shape) else 0
    nbytes = BAND + (first + extent) * size + BAND
    nbytes = -(-nbytes // ALIGNMENT) * ALIGNMENT
    offset = lead + first
    if layout != "int64_stride":
        return Placed(role, dtype, shape, strides, offset, nbytes, ((0, nbytes),))
    if len(shape) != 2:
        raise ValueError(f"layout int64_stride needs rank 2, not {len(shape)}")
    window = 2 * BAND + shape[1] * size
    segments = tuple(((offset + r * strides[0]) * size - BAND, window) for r in range(shape[0]))
    return Placed(role, dtype, shape, strides, offset, nbytes, segments)


def _windows(placed: Placed) -> list[tuple[slice, tuple[int, ...], tuple[int, ...], int]]:
    """(bytes of the image, shape, strides, first element) of each segment's part of the tensor."""
    if len(placed.segments) == 1:
        return [(slice(0, placed.nbytes), placed.shape, placed.strides, placed.offset)]
    size, start = ITEMSIZE[placed.dtype], 0
    parts: list[tuple[slice, tuple[int, ...], tuple[int, ...], int]] = []
    for _, length in placed.segments:
        parts.append((slice(start, start + length), placed.shape[1:], (1,), BAND // size))
        start += length
    return parts


def _views(placed: Placed, image: np.ndarray) -> list[np.ndarray]:
    """Writable strided views of the tensor's elements in `image`, one a segment."""
    kind = bits_dtype(placed.dtype)
    views = []
    for window, shape, strides, first in _windows(placed):
        base = image[window].view(kind)[first:]
        steps = tuple(s * kind.itemsize for s in strides)
        views.append(np.lib.stride_tricks.as_strided(base, shape, steps))
    return views


def image_of(placed: Placed, bits: np.ndarray | None, filler: int | None = None) -> np.ndarray:
    """The bytes of the buffer: `filler` (None: its canary) everywhere, then `bits` or, for None, poison."""
    image = np.empty(placed.image_bytes, np.uint8)
    image.view("<u2")[:] = CANARY[placed.role] if filler is None else filler
    value = np.broadcast_to(pattern(POISON, placed.dtype), placed.shape) if bits is None else bits
    views = _views(placed, image)
    if len(views) == 1:
        views[0][...] = value
    else:
        for row, view in enumerate(views):
            view[...] = value[row]
    return image


def elements(placed: Placed, image: np.ndarray) -> np.ndarray:
    """The tensor's bits in `image`, as a new array of the tensor's shape."""
    views = _views(placed, image)
    return views[0].copy() if len(views) == 1 else np.stack(views)


def outside_mask(placed: Placed) -> np.ndarray:
    """True for every byte of the image that is no element of the tensor."""
    probe = np.ones(placed.image_bytes, np.uint8)
    for view in _views(placed, probe):
        view[...] = 0
    return probe.astype(bool)


@dataclass(frozen=True)
class Stray:
    """One changed byte that is no element: where it is, in words and numbers."""

    role: str
    side: str  # "before the start", "past the end", "between rows", "between columns"
    element_offset: int  # from the tensor's first element
    byte_offset: int
    row: int | None
    column: int | None
    count: int  # changed bytes in all

    def __str__(self) -> str:
        place = f", row {self.row}, column {self.column}" if self.row is not None else ""
        return (
            f"{self.role}: {self.count} bytes written {self.side}; the first lies {self.element_offset} "
            f"elements ({self.byte_offset} bytes) from {self.role}'s first element{place}"
        )


def strays(placed: Placed, before: np.ndarray, after: np.ndarray) -> Stray | None:
    """The first byte outside the tensor's elements that `after` changed; None where all are intact."""
    changed = np.flatnonzero((before != after) & outside_mask(placed))
    if not len(changed):
        return None
    size = ITEMSIZE[placed.dtype]
    first = _buffer_offset(placed, int(changed[0])) - placed.offset * size
    element = first // size
    span = sum((n - 1) * s for n, s in zip(placed.shape, placed.strides, strict=True))
    if min(placed.shape) == 0:
        side = "beside a tensor without elements"
    elif first < 0:
        side = "before the start"
    elif element > span:
        side = "past the end"
    else:
        side = _gap(placed, element)
    row = column = None
    if len(placed.shape) == 2 and placed.strides[0] > 0 and 0 <= element <= span:
        row, column = divmod(element, placed.strides[0])
        if column > (placed.strides[0] + placed.shape[1]) // 2:  # nearer to the next row: column < 0
            row, column = row + 1, column - placed.strides[0]
        column = column if placed.strides[1] == 1 else None
    return Stray(placed.role, side, element, first, row, column, len(changed))


def _gap(placed: Placed, element: int) -> str:
    """Which gap an offset within the tensor's span lies in: that behind the nearest element before it."""
    dims = sorted(zip(placed.strides, range(len(placed.shape)), strict=True), reverse=True)
    column = 0
    for stride, dim in dims:
        index = min(element // stride, placed.shape[dim] - 1) if stride else 0
        element -= index * stride
        if dim == len(placed.shape) - 1:
            column = index
    return "between columns" if column < placed.shape[-1] - 1 else "between rows"


def _buffer_offset(placed: Placed, image_offset: int) -> int:
    for start, length in placed.segments:
        if image_offset < length:
            return start + image_offset
        image_offset -= length
    raise ValueError("an offset outside the image")


def changed_elements(placed: Placed, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """A bool array of the tensor's shape: which elements changed, bit for bit."""
    return elements(placed, before) != elements(placed, after)


def total_image_bytes(placed: Mapping[str, Placed]) -> int:
    return sum(p.image_bytes for p in placed.values())
