"""bfloat16 from integers alone: what the repaired interpreter is measured against.

A finite number is (sign, m, e), meaning (-1)**sign * m * 2**e with integers m >= 0 and e. Sums and
products are exact in these, so a result is rounded once, by comparing integers. No float is used.
"""

from __future__ import annotations

Number = tuple[int, int, int]


def decode(bits: int, exponent_bits: int, fraction_bits: int) -> Number | str:
    """Return the number that an IEEE bit pattern stands for, or "inf", "-inf", "nan"."""
    sign = bits >> (exponent_bits + fraction_bits)
    field = bits >> fraction_bits & (1 << exponent_bits) - 1
    fraction = bits & (1 << fraction_bits) - 1
    if field == (1 << exponent_bits) - 1:
        return "nan" if fraction else ("-inf" if sign else "inf")
    hidden = (1 << fraction_bits) if field else 0
    bias = (1 << exponent_bits - 1) - 1
    return sign, hidden + fraction, max(field, 1) - bias - fraction_bits


def encode(number: Number, exponent_bits: int, fraction_bits: int, truncate: bool = False) -> int:
    """Return the bit pattern nearest to number, ties to even (or the one nearer to zero)."""
    sign, m, e = number
    bias = (1 << exponent_bits - 1) - 1
    infinity = (1 << exponent_bits) - 1 << fraction_bits
    if m == 0:
        magnitude = 0
    else:
        top = max(m.bit_length() - 1 + e, 1 - bias)  # the exponent, not below that of a subnormal
        drop = top - fraction_bits - e
        if drop <= 0:
            quotient = m << -drop
        else:
            quotient, rest, half = m >> drop, m & (1 << drop) - 1, 1 << drop - 1
            if not truncate and (rest > half or (rest == half and quotient & 1)):
                quotient += 1
        # The hidden bit adds 1 to the exponent field, and so does a carry out of the quotient.
        magnitude = min((top + bias - 1 << fraction_bits) + quotient, infinity - bool(truncate))
    return sign << exponent_bits + fraction_bits | magnitude


def add(a: Number, b: Number) -> Number:
    """Return a + b, exactly. A zero is negative only where both are."""
    e = min(a[2], b[2])
    total = sum((-m if sign else m) << exponent - e for sign, m, exponent in (a, b))
    return (a[0] & b[0] if total == 0 else int(total < 0)), abs(total), e


def multiply(a: Number, b: Number) -> Number:
    """Return a * b, exactly."""
    return a[0] ^ b[0], a[1] * b[1], a[2] + b[2]


def divide(a: Number, b: Number) -> Number:
    """Return a / b for b != 0, with a last bit that says whether anything is left over."""
    extra = 400  # far more than any rounding looks at
    quotient, rest = divmod(a[1] << extra, b[1])
    return a[0] ^ b[0], quotient << 1 | bool(rest), a[2] - b[2] - extra - 1


def bf16(bits: int) -> Number | str:
    """Decode a bfloat16 bit pattern."""
    return decode(bits, 8, 7)


def to_bf16(number: Number, truncate: bool = False) -> int:
    """Encode to bfloat16."""
    return encode(number, 8, 7, truncate)
