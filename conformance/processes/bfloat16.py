"""bfloat16 as numpy has it not: bit patterns (uint16) to and from values, rounded exactly once.

Used to repair Triton's interpreter, which keeps bfloat16 as such bit patterns. Overflow gives no
warning: a value beyond the range becomes Inf, as in hardware.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def bf16_to_float32(bits: Array) -> Array:
    """Return the float32 values of bfloat16 bit patterns: the upper half of a float32, so exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def float32_to_bf16(values: Array) -> Array:
    """Return the bfloat16 bits nearest to float32 values, ties to even. NaN stays a quiet NaN."""
    bits = _bits_of(values)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + even) >> np.uint32(16)  # a NaN may wrap around here
    return np.where(np.isnan(values), _quiet_nan(bits), rounded).astype(np.uint16)


def float32_to_bf16_toward_zero(values: Array) -> Array:
    """Return the bfloat16 bit patterns of truncated float32 values. NaN stays a quiet NaN."""
    bits = _bits_of(values)
    return np.where(np.isnan(values), _quiet_nan(bits), bits >> np.uint32(16)).astype(np.uint16)


def to_bf16(values: Array) -> Array:
    """Return the bfloat16 bits nearest to boolean, integer or float values, rounded once."""
    if values.dtype.kind in "biu":
        values = _integers_to_odd(values)
    if values.dtype == np.float64:
        values = _float64_to_odd(values)
    return float32_to_bf16(values.astype(np.float32))


def _bits_of(values: Array) -> Array:
    return np.ascontiguousarray(values, dtype=np.float32).reshape(values.shape).view(np.uint32)


def _quiet_nan(bits: Array) -> Array:
    return (bits >> np.uint32(16)) | np.uint32(0x0040)


def toward_zero(values: Array, dtype: type[np.floating[Any]]) -> Array:
    """Return values truncated to a narrower float dtype; beyond its range, its largest number."""
    with np.errstate(all="ignore"):
        nearest = np.asarray(values.astype(dtype))
        too_far = np.abs(nearest.astype(values.dtype)) > np.abs(values)
    integer = np.dtype(f"u{nearest.dtype.itemsize}")
    return (nearest.view(integer) - too_far.astype(integer)).view(dtype)


# Rounding to odd (truncate, and set the last bit if anything was lost) keeps what a second, coarser
# rounding has to know: that the value is not exactly on a tie. So float64 -> float32 -> bfloat16
# rounds once.


def _float64_to_odd(values: Array) -> Array:
    down = toward_zero(values, np.float32)
    lost = (down.astype(np.float64) != values) & ~np.isnan(values)
    return (down.view(np.uint32) | lost.astype(np.uint32)).view(np.float32)


def _integers_to_odd(values: Array) -> Array:
    negative = values < 0
    as_they_are = values.astype(np.uint64)
    magnitude = np.where(negative, np.negative(as_they_are), as_they_are)  # modulo 2**64
    low = magnitude & np.uint64(0x7FF)
    odd = (magnitude - low) | ((low != 0).astype(np.uint64) << np.uint64(11))
    exact = np.where(magnitude >> np.uint64(53) != 0, odd, magnitude).astype(np.float64)
    return np.where(negative, -exact, exact)


def fma_to_odd(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z of bfloat16 values as float64, rounded to odd; x * y is exact there."""
    with np.errstate(all="ignore"):
        product, addend = np.broadcast_arrays(x.astype(np.float64) * y, z.astype(np.float64))
        total = np.asarray(product + addend)
        part = total - product
        # Knuth's two-sum: exactly what the addition lost.
        lost = (product - (total - part)) + (addend - part)
        inexact = np.isfinite(total) & (lost != 0)
    too_far = inexact & (np.signbit(lost) != np.signbit(total))
    down = total.view(np.uint64) - too_far.astype(np.uint64)
    return (down | inexact.astype(np.uint64)).view(np.float64)
