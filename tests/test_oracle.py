"""The oracle against exact fractions: the root is bracketed by integer square roots."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from conformance.model import Fill
from conformance.numerics.bits import decode
from conformance.numerics.inputs import make
from conformance.numerics.oracle import effective_weight, norm_source, normalise, reciprocal_rms

ROOT_DIGITS = 2**200


def root(value: Fraction) -> Fraction:
    """sqrt(value) from below, relative error under 2**-90 for what is asked here."""
    scaled = value.numerator * ROOT_DIGITS**2 // value.denominator
    return Fraction(math.isqrt(scaled), ROOT_DIGITS)


def exact(x: list[float], weight: list[float] | None, eps: float, offset: float) -> list[Fraction]:
    h = [Fraction(v) for v in x]
    total = sum(v * v for v in h) / len(h) + Fraction(eps)
    divisor = root(total)
    assert divisor**2 <= total < (divisor + Fraction(1, ROOT_DIGITS)) ** 2
    w = [Fraction(1)] * len(h) if weight is None else [Fraction(v) + Fraction(offset) for v in weight]
    return [v * g / divisor for v, g in zip(h, w, strict=True)]


def tensor(fill: Fill, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    return torch.from_numpy(decode(make(fill, shape, dtype), dtype))


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("eps", [1e-6, 1e-3, 0.0])
@pytest.mark.parametrize("scale", [1.0, 1e-4, 3e4, 1e-30])
@pytest.mark.parametrize("hidden_size", [1, 7, 64])
def test_plain_formula(hidden_size: int, scale: float, eps: float, offset: float) -> None:
    x = tensor(Fill(seed=1, scale=scale), (3, hidden_size), "float32")
    weight = tensor(Fill(seed=2), (hidden_size,), "bfloat16")
    y = normalise(x, None, weight, eps=eps, weight_offset=offset)
    for row in range(3):
        for actual, right in zip(
            y[row].tolist(), exact(x[row].tolist(), weight.tolist(), eps, offset), strict=True
        ):
            assert abs(Fraction(actual) - right) <= abs(right) * Fraction(1, 2**48)


def test_no_weight_and_rrms() -> None:
    x = tensor(Fill(seed=3), (2, 33), "float16")
    y = normalise(x, None, None, eps=1e-5)
    right = exact(x[1].tolist(), None, 1e-5, 0.0)
    assert all(
        abs(Fraction(a) - r) <= abs(r) * Fraction(1, 2**48) for a, r in zip(y[1].tolist(), right, strict=True)
    )
    mean = sum(Fraction(v) ** 2 for v in x[0].tolist()) / 33 + Fraction(1e-5)
    assert abs(Fraction(float(reciprocal_rms(x, 1e-5)[0])) * root(mean) - 1) < Fraction(1, 2**48)


def test_a_zero_row_is_zero() -> None:
    assert (normalise(torch.zeros(2, 5, dtype=torch.float64), None, None, eps=1e-6) == 0).all()


def test_the_three_sums() -> None:
    x = torch.tensor([[1.0, 256.0]], dtype=torch.float64)
    residual = torch.tensor([[2.0**-9, 1.0]], dtype=torch.float64)
    exact_sum, rounded = (
        [[1 + 2.0**-9, 257.0]],
        [[1.0, 256.0]],
    )  # bf16 near 256 has a spacing of 2: a tie, to even
    got = {n: norm_source(x, residual, n, "bfloat16") for n in ("exact_sum", "rounded_sum", "mixed")}
    assert [t.tolist() for t in got["exact_sum"]] == [exact_sum, exact_sum]
    assert [t.tolist() for t in got["rounded_sum"]] == [rounded, rounded]
    assert [t.tolist() for t in got["mixed"]] == [rounded, exact_sum]
    with pytest.raises(ValueError, match="should be one of exact_sum"):
        norm_source(x, residual, "sum", "bfloat16")


def test_the_fused_formula_is_the_plain_one_of_the_sum() -> None:
    x, residual = (
        tensor(Fill(seed=4), (2, 65), "bfloat16"),
        tensor(Fill(seed=5, scale=3.0), (2, 65), "bfloat16"),
    )
    weight = tensor(Fill(seed=6), (65,), "bfloat16")
    fused = normalise(x, residual, weight, eps=1e-6)
    assert torch.equal(fused, normalise(x + residual, None, weight, eps=1e-6))
    for actual, right in zip(
        fused[1].tolist(), exact((x + residual)[1].tolist(), weight.tolist(), 1e-6, 0.0), strict=True
    ):
        assert abs(Fraction(actual) - right) <= abs(right) * Fraction(1, 2**48)


def test_effective_weight() -> None:
    weight = torch.tensor([-1.0, 0.5], dtype=torch.float64)
    assert effective_weight(None, 1.0) is None
    assert effective_weight(weight, 0.0) is weight
    assert effective_weight(weight, 1.0).tolist() == [0.0, 1.5]
