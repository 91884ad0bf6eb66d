"""The values of a case's tensors: the same bits on every machine.

A fill is made of Philox's raw 64-bit integers (a published counter-based generator, pure integer arithmetic)
and of exactly rounded float64 steps, one operation each, so that no CPU can contract or reorder them.
torch.randn, log and cos differ between CPUs in their last bits and are never used. tests/test_inputs.py pins
digests.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt

from conformance.model import Fill
from conformance.numerics.bits import Bits, encode

KINDS = ("bell", "uniform", "constant", "zeros")

_KEY = 0x524D534E_6F726D31  # the upper half of every Philox key; changing it changes every digest

# A bell value is (a + b + c + d) of four independent 16-bit integers, centred and scaled to unit variance:
# the variance of one is (2**32 - 1) / 12, of four (2**32 - 1) / 3; the centred sum is doubled to stay an
# integer.
_BELL_UNIT = 1.3214498960651509e-05  # sqrt(3 / (2**32 - 1)) / 2


def make(fill: Fill, shape: tuple[int, ...], dtype: str) -> Bits:
    """The bits of one tensor in `shape`, row-major, as `conformance.numerics.bits.encode` gives them.

    A row is everything but the last dimension, flattened; a shape (hidden_size,) is one row. Element i
    depends on the fill and on i alone, so the first rows of a taller tensor equal a shorter one of the same
    width. Raises ValueError for an unknown kind or dtype, and IndexError where `put` or `zero_rows` points
    outside.
    """
    if not shape:
        raise ValueError("shape is (), but should have at least one dimension, hidden_size")
    hidden_size = shape[-1]
    n_rows = math.prod(shape[:-1])
    values = _base(fill, n_rows * hidden_size).reshape(n_rows, hidden_size)
    if fill.scale != 1.0:
        values *= fill.scale
    if fill.mean != 0.0:
        values += fill.mean
    if fill.row_scales:
        cycle = np.asarray(fill.row_scales, dtype=np.float64)
        values *= cycle[np.arange(n_rows) % len(cycle), None]
    if fill.zero_every:
        values[:, fill.zero_every - 1 :: fill.zero_every] = 0.0
    if fill.last_column is not None:
        values[:, -1] = fill.last_column
    for row in fill.zero_rows:
        values[_index(row, n_rows, "zero_rows", "row")] = 0.0
    for row, column, value in fill.put:
        row = _index(row, n_rows, "put", "row")
        values[row, _index(column, hidden_size, "put", "column")] = float(value)
    return encode(values, dtype).reshape(shape)


def digest(bits: Bits) -> str:
    """The SHA-256 of the bits in row-major order and little-endian bytes, as 64 hexadecimal digits."""
    array = np.ascontiguousarray(bits)
    return hashlib.sha256(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()).hexdigest()


def _base(fill: Fill, count: int) -> npt.NDArray[np.float64]:
    if fill.kind == "zeros":
        return np.zeros(count)
    if fill.kind == "constant":
        return np.ones(count)
    if fill.kind not in KINDS:
        raise ValueError(f"fill kind is {fill.kind!r}, but should be one of {', '.join(KINDS)}")
    raw = np.random.Philox(key=fill.seed + (_KEY << 64)).random_raw(count).reshape(count)
    if fill.kind == "uniform":
        # 2k + 1 - 2**53 for k of 53 bits: odd, symmetric about 0, exact in float64, never quite -1 or 1.
        integers = (raw >> np.uint64(11)).astype(np.int64)
        return (2 * integers + (1 - 2**53)).astype(np.float64) * 2.0**-53
    lanes = np.zeros(count, np.int64)
    for shift in (0, 16, 32, 48):
        lanes += ((raw >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    return (2 * lanes - 4 * 65535).astype(np.float64) * _BELL_UNIT


def _index(index: int, length: int, field: str, what: str) -> int:
    if not -length <= index < length:
        raise IndexError(f"{field} names {what} {index}, but should lie in {-length}..{length - 1}")
    return index % length
