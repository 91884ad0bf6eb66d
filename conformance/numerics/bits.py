"""Bits of fp16, bf16, fp32 and fp64 values, by integer arithmetic alone.

What a fill contains and what a store should have written must not depend on a CPU's conversion instructions
or on any library's idea of rounding, so both directions are written out here. numpy only; no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.unsignedinteger]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Format:
    """One IEEE-style binary format: a sign bit, `exponent` bits, `mantissa` stored bits."""

    name: str
    exponent: int
    mantissa: int
    storage: type[np.unsignedinteger]

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        """The bits of +Inf; a magnitude above it is a NaN."""
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan(self) -> int:
        """The canonical quiet NaN: positive, only the top mantissa bit set."""
        return self.infinity | 1 << (self.mantissa - 1)

    @property
    def sign_shift(self) -> int:
        return self.exponent + self.mantissa


FORMATS = {
    "float16": Format("float16", 5, 10, np.uint16),
    "bfloat16": Format("bfloat16", 8, 7, np.uint16),
    "float32": Format("float32", 8, 23, np.uint32),
    "float64": Format("float64", 11, 52, np.uint64),
}

_CHUNK = 1 << 15  # elements that stay in the cache while a dozen operations pass over them


def encode(values: npt.ArrayLike, dtype: str) -> Bits:
    """Round float64 `values` to `dtype`, to nearest with ties to even, and return the bits in the same shape.

    Overflow gives Inf, subnormals are kept, every NaN becomes the canonical quiet one. The result is uint16
    for float16 and bfloat16, uint32 for float32, uint64 for float64. Raises ValueError for another dtype.
    """
    form = _format(dtype)
    array = np.ascontiguousarray(values, dtype=np.float64)
    source = array.reshape(-1).view(np.uint64)
    out = np.empty(source.shape, form.storage)
    for start in range(0, source.size, _CHUNK):
        out[start : start + _CHUNK] = _encode(source[start : start + _CHUNK], form)
    return out.reshape(np.shape(values))


def decode(bits: npt.ArrayLike, dtype: str) -> Values:
    """The exact values of `bits` as float64, in the same shape; NaN payloads are not kept.

    Raises ValueError for an unknown dtype and TypeError where the array's type is not the dtype's storage
    type.
    """
    form = _format(dtype)
    array = np.asarray(bits)
    if array.dtype != form.storage:
        raise TypeError(
            f"bits of {dtype} are {array.dtype}, but should be {np.dtype(form.storage)}; "
            "view the tensor's storage as unsigned integers first"
        )
    out = np.empty(array.size, np.float64)
    source = array.reshape(-1)
    for start in range(0, source.size, _CHUNK):
        out[start : start + _CHUNK] = _decode(source[start : start + _CHUNK].astype(np.uint64), form)
    return out.reshape(array.shape)


def _format(dtype: str) -> Format:
    try:
        return FORMATS[dtype]
    except KeyError:
        raise ValueError(f"dtype is {dtype!r}, but should be one of {', '.join(FORMATS)}") from None


def _encode(source: npt.NDArray[np.uint64], form: Format) -> npt.NDArray[np.uint64]:
    u64 = np.uint64
    one = u64(1)
    double = FORMATS["float64"]
    magnitude = source & u64((1 << 63) - 1)
    sign = (source >> u64(63)) << u64(form.sign_shift)
    nan = magnitude > u64(double.infinity)
    dropped = 52 - form.mantissa
    if dropped == 0:
        result = magnitude
    else:
        # Normal results: move the exponent to the new bias, then round away `dropped` bits. A carry out of
        # the mantissa raises the exponent, which is exactly what rounding up to the next power of two means.
        rebias = u64((double.bias - form.bias) << 52)
        shift = u64(dropped)
        moved = magnitude - rebias  # wraps where the result is subnormal; replaced below
        even = (moved >> shift) & one
        result = (moved + (u64((1 << (dropped - 1)) - 1) + even)) >> shift
        np.minimum(result, u64(form.infinity), out=result)
        lowest = u64((double.bias - form.bias + 1) << 52)
        small = magnitude < lowest
        if small.any():
            result[small] = _encode_subnormal(magnitude[small], form)
    result = result | sign
    result[nan] = u64(form.nan)
    return result


def _encode_subnormal(magnitude: npt.NDArray[np.uint64], form: Format) -> npt.NDArray[np.uint64]:
    """Results below the smallest normal: shift the whole significand into place, rounding what falls off."""
    u64 = np.uint64
    exponent = (magnitude >> u64(52)).astype(np.int64)
    significand = magnitude & u64((1 << 52) - 1)
    significand |= (exponent > 0).astype(np.uint64) << u64(52)
    rebased = np.maximum(exponent, 1) - (FORMATS["float64"].bias - form.bias)
    # From a shift of 54 on, everything is less than half of the last place: the result is zero.
    shift = np.minimum(52 - form.mantissa + 1 - rebased, 60).astype(np.uint64)
    half = u64(1) << (shift - u64(1))
    even = (significand >> shift) & u64(1)
    return (significand + (half - u64(1) + even)) >> shift


def _decode(bits: npt.NDArray[np.uint64], form: Format) -> Values:
    u64 = np.uint64
    magnitude = bits & u64((1 << form.sign_shift) - 1)
    sign = (bits >> u64(form.sign_shift)) << u64(63)
    widened = magnitude << u64(52 - form.mantissa)
    if form.mantissa != 52:
        widened += u64((FORMATS["float64"].bias - form.bias) << 52)
        special = magnitude >= u64(form.infinity)
        widened[special] = u64(FORMATS["float64"].infinity)
    nan = magnitude > u64(form.infinity)
    widened[nan] = u64(FORMATS["float64"].nan)
    values = widened.view(np.float64)
    if form.mantissa != 52:
        small = magnitude < u64(1 << form.mantissa)
        # A subnormal is an integer times a power of two: exact in float64, whose range is far wider.
        values[small] = magnitude[small].astype(np.float64) * 2.0 ** (1 - form.bias - form.mantissa)
    signed = values.view(np.uint64) | np.where(nan, u64(0), sign)
    return signed.view(np.float64)
