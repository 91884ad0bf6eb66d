"""Encoding and decoding by integer arithmetic, against struct, fractions and every 16-bit pattern."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest

from conformance.numerics.bits import FORMATS, decode, encode

NARROW = ("float16", "bfloat16", "float32")


def neighbours(dtype: str) -> list[tuple[int, int]]:
    """Pairs of adjacent bit patterns: around zero, the smallest normal, 1, the largest finite value."""
    form = FORMATS[dtype]
    one = form.bias << form.mantissa
    firsts = [0, 1, (1 << form.mantissa) - 1, 1 << form.mantissa, one - 1, one, one + 1, form.infinity - 2]
    return [(first, first + 1) for first in firsts]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_finite_pattern_survives_the_way_there_and_back(dtype: str) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    back = encode(decode(bits, dtype), dtype)
    nan = (bits & 0x7FFF) > FORMATS[dtype].infinity
    assert np.array_equal(back[~nan], bits[~nan])
    assert (back[nan] == FORMATS[dtype].nan).all()


def test_decode_agrees_with_struct_on_every_fp16_pattern() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = np.array([struct.unpack("<e", struct.pack("<H", int(b)))[0] for b in bits])
    assert np.array_equal(decode(bits, "float16"), expected, equal_nan=True)


def test_decode_bf16_is_the_upper_half_of_fp32() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = [struct.unpack("<f", struct.pack("<I", int(b) << 16))[0] for b in bits]
    assert np.array_equal(decode(bits, "bfloat16"), np.array(expected), equal_nan=True)


@pytest.mark.parametrize("dtype", NARROW)
def test_ties_go_to_even_and_anything_else_to_the_nearer(dtype: str) -> None:
    storage = FORMATS[dtype].storage
    for first, second in neighbours(dtype):
        low, high = decode(np.array([first, second], storage), dtype)
        middle = float((Fraction(float(low)) + Fraction(float(high))) / 2)
        even = first if first % 2 == 0 else second
        values = np.array([middle, np.nextafter(middle, low), np.nextafter(middle, high)])
        assert list(encode(values, dtype)) == [even, first, second], (dtype, first)
        sign = 1 << FORMATS[dtype].sign_shift
        assert list(encode(-values, dtype)) == [even | sign, first | sign, second | sign]


@pytest.mark.parametrize("dtype", NARROW)
def test_overflow_is_inf_from_half_a_place_beyond_the_largest(dtype: str) -> None:
    form = FORMATS[dtype]
    largest = form.infinity - 1
    low, previous = decode(np.array([largest, largest - 1], form.storage), dtype)
    limit = low + (low - previous) / 2
    assert encode(np.array(limit), dtype) == form.infinity
    assert encode(np.array(np.nextafter(limit, 0)), dtype) == largest


@pytest.mark.parametrize("dtype", [*NARROW, "float64"])
def test_special_values(dtype: str) -> None:
    form = FORMATS[dtype]
    sign = 1 << form.sign_shift
    payload = np.array([0xFFF0000000000123], np.uint64).view(np.float64)[0]
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, payload, 5e-324])
    smallest = 1 if dtype == "float64" else 0
    expected = [0, sign, form.infinity, form.infinity | sign, form.nan, form.nan, smallest]
    assert list(encode(values, dtype)) == expected


def test_encode_agrees_with_numpy_casts_over_the_whole_range() -> None:
    raw = np.random.Philox(key=5).random_raw(200_000)
    values = raw.view(np.float64)  # every exponent, subnormals, some NaNs
    spread = np.concatenate([values, (raw >> np.uint64(40)).astype(np.float64) * 2.0**-40])
    with np.errstate(over="ignore", invalid="ignore"):
        for dtype, cast in (("float16", np.float16), ("float32", np.float32)):
            form = FORMATS[dtype]
            expected = spread.astype(cast).view(form.storage)
            expected = np.where(np.isnan(spread), form.storage(form.nan), expected)
            assert np.array_equal(encode(spread, dtype), expected)
    assert np.array_equal(
        encode(decode(encode(spread, "float64"), "float64"), "float64"), encode(spread, "float64")
    )


def test_bf16_agrees_with_fractions_on_random_values() -> None:
    raw = np.random.Philox(key=6).random_raw(2000)
    values = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-60
    for value, bits in zip(values, encode(values, "bfloat16"), strict=True):
        around = decode(np.array([bits - 1, bits, bits + 1], np.uint16), "bfloat16")
        errors = [abs(Fraction(float(a)) - Fraction(float(value))) for a in around]
        assert errors[1] == min(errors)


def test_shapes_and_refusals() -> None:
    assert encode(np.zeros((2, 0, 3)), "float16").shape == (2, 0, 3)
    assert encode(1.0, "float16").shape == ()
    with pytest.raises(ValueError, match="should be one of"):
        encode(1.0, "float8")
    with pytest.raises(TypeError, match="should be uint16"):
        decode(np.zeros(3, np.int16), "float16")
