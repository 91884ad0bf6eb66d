"""Every guard region of every layout is watched, and a changed byte in it is located."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance import buffers
from conformance.model import DTYPES, LAYOUTS, TENSORS

ROWS, WIDTH = 3, 5
SHAPES = {"split_heads": (2, ROWS, WIDTH)}
GAPS = {  # the sides that a layout has besides the two ends
    "row_slice": {"between rows"},
    "column_offset": {"between rows"},
    "column_step": {"between rows", "between columns"},
    "split_heads": {"between rows"},
    "int64_stride": {"between rows"},
}


def placed(role: str, layout: str, dtype: str = "bfloat16") -> buffers.Placed:
    shape = SHAPES.get(layout, (ROWS, WIDTH))
    return buffers.place(
        role, (WIDTH,) if role == "weight" and layout != "split_heads" else shape, dtype, layout
    )


def cases() -> list[tuple[str, str]]:
    """Every tensor role in every layout it can have."""
    pairs = [(role, layout) for role in TENSORS for layout in LAYOUTS]
    needs_rows = ("transposed", "split_heads", "int64_stride")
    return [
        (r, la)
        for r, la in pairs
        if not (r == "weight" and la in needs_rows) and not (r == "out" and la in ("expanded", "one_element"))
    ]


def counting(p: buffers.Placed) -> np.ndarray:
    """Bits that differ from element to element, in the tensor's shape; one value where elements overlap."""
    bits = np.arange(1, 1 + math.prod(p.shape)).reshape(p.shape).astype(buffers.bits_dtype(p.dtype))
    if not any(p.strides):
        return np.broadcast_to(bits.flat[0], p.shape)
    return np.broadcast_to(bits[0], p.shape) if p.strides[0] == 0 and len(p.shape) > 1 else bits


def byte_positions(p: buffers.Placed) -> set[int]:
    """The bytes of the buffer that belong to elements, one index at a time: slow, and plainly right."""
    size = buffers.ITEMSIZE[p.dtype]
    found = set()
    for index in np.ndindex(p.shape):
        at = (p.offset + sum(i * s for i, s in zip(index, p.strides, strict=True))) * size
        found.update(range(at, at + size))
    return found


def expected_side(p: buffers.Placed, byte: int) -> str:
    """Where a byte of the buffer lies, by looking for the elements around it."""
    size = buffers.ITEMSIZE[p.dtype]
    starts = {
        index: (p.offset + sum(i * s for i, s in zip(index, p.strides, strict=True))) * size
        for index in np.ndindex(p.shape)
    }
    if byte < min(starts.values()):
        return "before the start"
    if byte >= max(starts.values()) + size:
        return "past the end"
    previous = max((at, index) for index, at in starts.items() if at <= byte)[1]
    return "between columns" if previous[-1] < p.shape[-1] - 1 else "between rows"


def image_map(p: buffers.Placed) -> dict[int, int]:
    """Byte of the buffer -> byte of the image."""
    pairs, at = {}, 0
    for start, length in p.segments:
        pairs.update(zip(range(start, start + length), range(at, at + length), strict=True))
        at += length
    return pairs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_come_back(layout: str, dtype: str) -> None:
    """What is put into a buffer is read out of it, bit for bit, in every layout and dtype."""
    p = placed("x", layout, dtype)
    bits = counting(p)
    assert np.array_equal(buffers.elements(p, buffers.image_of(p, bits)), bits)


@pytest.mark.parametrize(("role", "layout"), cases())
def test_every_guard_byte_is_watched_and_located(role: str, layout: str) -> None:
    """One flipped byte, anywhere but in an element, is found, and its side and distance are right.

    Every byte near an element and a sample of the bands is tried.
    """
    p = placed(role, layout)
    before = buffers.image_of(p, counting(p))
    inside = byte_positions(p)
    size, sides, image = buffers.ITEMSIZE[p.dtype], set(), image_map(p)
    near = {byte + d for byte in inside for d in range(-3, 4)}
    for byte in sorted({*near, *list(image)[::997], min(image), max(image)} - inside):
        after = before.copy()
        after[image[byte]] ^= 0xFF
        stray = buffers.strays(p, before, after)
        assert stray is not None, f"byte {byte} of {role}, {layout}"
        assert stray.side == expected_side(p, byte), f"byte {byte} of {role}, {layout}"
        assert (stray.byte_offset, stray.count) == (byte - p.offset * size, 1)
        assert stray.element_offset == math.floor((byte - p.offset * size) / size)
        sides.add(stray.side)
    gaps = GAPS.get(layout, set()) if role != "weight" else GAPS.get(layout, set()) & {"between columns"}
    assert sides == {"before the start", "past the end"} | gaps


@pytest.mark.parametrize(("role", "layout"), cases())
def test_element_writes_are_no_strays(role: str, layout: str) -> None:
    """Overwriting every element changes nothing that is guarded."""
    p = placed(role, layout)
    before = buffers.image_of(p, None)
    after = buffers.image_of(p, counting(p))
    assert buffers.strays(p, before, after) is None
    assert buffers.changed_elements(p, before, after).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_mask_is_the_complement_of_the_elements(layout: str) -> None:
    """Exactly the bytes of elements are unguarded."""
    p = placed("x", layout)
    outside = buffers.outside_mask(p)
    open_bytes = {byte for byte, position in image_map(p).items() if not outside[position]}
    assert open_bytes == byte_positions(p)


@pytest.mark.parametrize("layout", ["row_slice", "column_offset", "int64_stride"])
def test_a_stray_between_rows_names_row_and_column(layout: str) -> None:
    """One element past the end of row 1 is column WIDTH of row 1; one before row 1 is column -1 of it."""
    p = placed("out", layout)
    before = buffers.image_of(p, counting(p))
    for column in (WIDTH, -1):
        target = (p.offset + p.strides[0] + column) * buffers.ITEMSIZE[p.dtype]
        after = before.copy()
        after[image_map(p)[target]] ^= 1
        stray = buffers.strays(p, before, after)
        assert stray is not None
        assert (stray.row, stray.column) == (1, column)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_first_element_is_aligned_unless_the_layout_says_otherwise(layout: str, dtype: str) -> None:
    """Element 0 lies on a 256 byte boundary; in odd_base and column_offset one element behind it."""
    p = placed("x", layout, dtype)
    size = buffers.ITEMSIZE[dtype]
    past = (p.offset * size) % buffers.ALIGNMENT
    assert past == (size if layout in ("odd_base", "column_offset") else 0)


def test_an_int64_stride_holds_only_windows_around_its_rows() -> None:
    """Rows lie more than 2**31 elements apart, in a buffer of gigabytes whose image is a few windows."""
    p = placed("x", "int64_stride")
    assert p.strides[0] > 2**31
    assert p.nbytes > 2 * ROWS * 2**30
    assert len(p.segments) == ROWS
    assert p.image_bytes == ROWS * (2 * buffers.BAND + WIDTH * 2)
    assert all(start >= 0 and start + length <= p.nbytes for start, length in p.segments)


@pytest.mark.parametrize("dtype", DTYPES)
def test_canary_and_poison_are_nans_of_their_own(dtype: str) -> None:
    """Read as numbers, guards and unwritten elements are NaN, and neither is the NaN of arithmetic."""
    import torch

    for word in (*buffers.CANARY.values(), buffers.ALLOCATED, buffers.POISON):
        bits = np.array([buffers.pattern(word, dtype)], buffers.bits_dtype(dtype))
        signed = bits.view(f"<i{bits.itemsize}")
        value = torch.from_numpy(signed).view(getattr(torch, dtype))
        assert value.isnan().all()
        plain = torch.full((1,), math.nan, dtype=getattr(torch, dtype)).view(torch.uint8).numpy()
        assert not np.array_equal(plain, bits.view(np.uint8))
    words = [*buffers.CANARY.values(), buffers.ALLOCATED, buffers.POISON]
    assert len(set(words)) == len(words)


def test_a_tensor_without_elements_is_guarded_too() -> None:
    """Whatever is written beside a tensor of no rows is a stray."""
    p = buffers.place("out", (0, WIDTH), "float32")
    before = buffers.image_of(p, None)
    after = before.copy()
    after[buffers.BAND] ^= 1
    stray = buffers.strays(p, before, after)
    assert stray is not None
    assert stray.side == "beside a tensor without elements"
