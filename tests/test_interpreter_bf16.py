"""bfloat16 in the repaired interpreter against integer arithmetic; the stock one fails."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bf16_numbers as exact
import numpy as np
import pytest
from numpy.typing import NDArray

from conformance.processes import interpreter

SCRIPT = Path(__file__).with_name("interpreted_operations.py")

ALL_BF16 = np.arange(65536, dtype=np.uint16)
# Every upper half of a float32 with every kind of lower half: exact, just above it, just under a tie,
# a tie, just over a tie, just under the next. All exponents, signs, subnormals, Inf, NaN, overflow.
LOWER_HALVES = (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
FLOAT32_BITS = np.concatenate(
    [(ALL_BF16.astype(np.uint32) << 16) | low for low in LOWER_HALVES], dtype=np.uint32
)


def _finite(bits: NDArray[np.uint16]) -> NDArray[np.uint16]:
    return bits[(bits & 0x7F80) != 0x7F80]


def _operands() -> dict[str, NDArray[np.uint16]]:
    """Triples of finite bfloat16: random, close ones that cancel, extremes against extremes."""
    random = np.random.Generator(np.random.Philox(7))
    anything = _finite(random.integers(0, 65536, 3 * 9000).astype(np.uint16))[: 3 * 8000]
    a, b, c = anything.reshape(3, 8000).copy()
    near = 4000
    b[:near] = (a[:near] & 0x7FFF) % 0x7F00 + (b[:near] & 0x800F)  # like magnitude, either sign
    c[near:6000] = exact_negative_products(a[near:6000], b[near:6000])
    extremes = np.array(
        [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF80, 0x3F81, 0x7F7F, 0xFF7F, 0x4000, 0x7E80],
        dtype=np.uint16,
    )
    pairs = np.array([(p, q) for p in extremes for q in extremes], dtype=np.uint16)
    return {
        "a": np.concatenate([a, pairs[:, 0]]),
        "b": np.concatenate([b, pairs[:, 1]]),
        "c": np.concatenate([c, np.resize(extremes, len(pairs))]),
    }


def exact_negative_products(a: NDArray[np.uint16], b: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """-(a * b) rounded, so that fma(a, b, c) is what the product's rounding lost."""
    products = (exact.to_bf16(exact.multiply(_number(p), _number(q))) for p, q in zip(a, b, strict=True))
    rounded = np.fromiter(products, dtype=np.uint16, count=len(a))
    return np.where((rounded & 0x7F80) == 0x7F80, np.uint16(1), rounded ^ np.uint16(0x8000))


def _number(bits: object) -> exact.Number:
    number = exact.bf16(int(bits))  # type: ignore[call-overload]
    assert not isinstance(number, str)
    return number


@pytest.fixture(scope="module")
def given() -> dict[str, NDArray[np.generic]]:
    random = np.random.Generator(np.random.Philox(11))
    normal = (0x3F00 + random.integers(0, 0x180, (32, 256))).astype(np.uint16)  # 0.5 to 4
    signs = (random.integers(0, 2, (32, 256)) << 15).astype(np.uint16)
    ties = np.array([0x3F808000, 0x3F818000, 0x00008000, 0x80018000], dtype=np.uint32)
    ties = ties.view(np.float32).astype(np.float64)
    integers = np.array([0, 1, -1, 256, 257, 258, 259, -257, 65535, 2**31 - 1, -(2**31)])
    wide = [2**62 + 2**54, 2**62 + 2**54 + 1, 2**62 + 3 * 2**54 - 1, -(2**62) - 2**54 - 1]
    return {
        "all_bf16": ALL_BF16,
        "whole_bf16": np.array([0, 0x3F80, 0xBFFF, 0x4700, 0xC2F7, 0x0001], dtype=np.uint16),
        "float32": FLOAT32_BITS.view(np.float32),
        # On a tie, and off it by less than float32 can say: rounded wrongly by way of float32.
        "float64": np.concatenate(
            [ties * (1 + sign * 2.0**-50) for sign in (-1, 0, 1)]
            + [np.array([3.4e38, 1e39, -1e300, np.inf, 1e-45, 5e-324, 0.3])]
        ),
        "float16": np.arange(65536, dtype=np.uint16).view(np.float16),
        "int32": integers.astype(np.int32),
        "int64": np.array([*integers, *wide, 2**63 - 1, -(2**63)], dtype=np.int64),
        "rows_bf16": normal | signs,
        "rows_float16": (random.integers(0, 4096, (32, 256)) / 1024).astype(np.float16),
        **_operands(),
    }


def _run(kind: str, given: dict[str, NDArray[np.generic]], folder: Path) -> dict[str, np.ndarray]:
    np.savez(folder / "given.npz", **given)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    arguments = [kind, str(folder / "given.npz"), str(folder / "out.npz")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *arguments],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with np.load(folder / "out.npz") as out:
        return {**out}


@pytest.fixture(scope="module")
def repaired(given, tmp_path_factory) -> dict[str, np.ndarray]:
    if not interpreter.supported():
        pytest.skip(str(interpreter.unsupported_reason()))
    return _run("repaired", given, tmp_path_factory.mktemp("repaired"))


def expected_bf16(numbers: list[exact.Number | str], truncate: bool = False) -> NDArray[np.uint16]:
    special = {"nan": 0x7FC0, "inf": 0x7F80, "-inf": 0xFF80}
    return np.array(
        [special[n] if isinstance(n, str) else exact.to_bf16(n, truncate) for n in numbers],
        dtype=np.uint16,
    )


def wrong(actual: np.ndarray, expected: np.ndarray) -> int:
    """Count differing bit patterns; any NaN matches any NaN."""
    assert actual.shape == expected.shape
    assert actual.size > 0
    a, e = (array & 0x7FFF for array in (actual, expected))
    both_nan = (a > 0x7F80) & (e > 0x7F80)
    return int(((actual != expected) & ~both_nan).sum())


def wrong_upcasts(actual: np.ndarray) -> int:
    bits, expected = actual.view(np.uint32), ALL_BF16.astype(np.uint32) << 16
    both_nan = ((bits & 0x7FFFFFFF) > 0x7F800000) & ((expected & 0x7FFFFFFF) > 0x7F800000)
    return int(((bits != expected) & ~both_nan).sum())


@functools.cache
def float32_numbers() -> list[exact.Number | str]:
    return [exact.decode(bits, 8, 23) for bits in FLOAT32_BITS.tolist()]


def test_all_upcasts(repaired):
    assert wrong_upcasts(repaired["upcast"]) == 0


def test_downcasts_round_to_nearest_even(repaired):
    assert wrong(repaired["downcast"], expected_bf16(float32_numbers())) == 0


def test_no_nan_becomes_infinite(repaired):
    nan = (FLOAT32_BITS & 0x7FFFFFFF) > 0x7F800000
    for name in ("downcast", "truncated"):
        assert ((repaired[name][nan] & 0x7FFF) > 0x7F80).all()


def test_truncation_on_request(repaired):
    assert wrong(repaired["truncated"], expected_bf16(float32_numbers(), truncate=True)) == 0


def test_float16_truncation_on_request(repaired):
    for bits, number in zip(
        repaired["float16_truncated"].view(np.uint16)[::7], float32_numbers()[::7], strict=True
    ):
        if isinstance(number, str):
            assert exact.decode(int(bits), 5, 10) == number
        else:
            assert int(bits) == exact.encode(number, 5, 10, truncate=True), number


@pytest.mark.parametrize("name", ["float64", "float16", "int32", "int64"])
def test_other_dtypes_are_rounded_once(repaired, given, name):
    values = given[name]
    if values.dtype.kind == "f":
        widths = {2: (5, 10), 8: (11, 52)}[values.dtype.itemsize]
        unsigned = values.view(f"u{values.dtype.itemsize}").tolist()
        numbers = [exact.decode(bits, *widths) for bits in unsigned]
    else:
        numbers = [(int(value < 0), abs(value), 0) for value in values.tolist()]
    assert wrong(repaired[f"from_{name}"], expected_bf16(numbers)) == 0


def test_to_float16_and_int(repaired):
    for bits, source in zip(repaired["to_float16"].view(np.uint16).tolist(), ALL_BF16.tolist(), strict=True):
        number = exact.bf16(source)
        if isinstance(number, str):
            assert exact.decode(bits, 5, 10) == number
        else:
            assert bits == exact.encode(number, 5, 10)
    assert repaired["to_int32"].tolist() == [0, 1, -1, 32768, -123, 0]


def _with_bits(function: Callable[..., exact.Number], *operands: np.ndarray) -> NDArray[np.uint16]:
    numbers = [function(*map(_number, each)) for each in zip(*operands, strict=True)]
    return expected_bf16(numbers)  # type: ignore[arg-type]


def _negative(a: exact.Number) -> exact.Number:
    return 1 - a[0], a[1], a[2]


@pytest.mark.parametrize(
    ("op", "function", "names"),
    [
        ("add", exact.add, "ab"),
        ("subtract", lambda a, b: exact.add(a, _negative(b)), "ab"),
        ("multiply", exact.multiply, "ab"),
        ("fma", lambda a, b, c: exact.add(exact.multiply(a, b), c), "abc"),
        ("absolute", lambda a: (0, a[1], a[2]), "a"),
        ("times_two", lambda a: exact.multiply(a, (0, 2, 0)), "a"),
    ],
)
def test_arithmetic_rounds_once(repaired, given, op, function, names):
    expected = _with_bits(function, *(given[name] for name in names))
    assert wrong(repaired[op], expected) == 0


def test_division(repaired, given):
    a, b, quotient = given["a"], given["b"], repaired["divide"]
    some = (b & 0x7FFF) != 0
    assert wrong(quotient[some], _with_bits(exact.divide, a[some], b[some])) == 0
    zero_by_zero = ~some & ((a & 0x7FFF) == 0)
    assert ((quotient[zero_by_zero] & 0x7FFF) > 0x7F80).all()
    assert ((quotient[~some & ~zero_by_zero] & 0x7FFF) == 0x7F80).all()


def test_comparison_and_selection(repaired, given):
    signed = [(-m if s else m, e) for s, m, e in map(_number, given["a"])]
    other = [(-m if s else m, e) for s, m, e in map(_number, given["b"])]
    difference = [(m << e + 200) - (n << f + 200) for (m, e), (n, f) in zip(signed, other, strict=True)]
    less = np.array([d < 0 for d in difference])
    assert (repaired["less"].astype(bool) == less).all()
    assert (repaired["equal"].astype(bool) == np.array([d == 0 for d in difference])).all()
    assert (repaired["where"] == np.where(less, given["a"], given["b"])).all()


def _tree(numbers: list[exact.Number], widths: tuple[int, int]) -> exact.Number:
    while len(numbers) > 1:
        sums = (exact.add(a, b) for a, b in zip(numbers[0::2], numbers[1::2], strict=True))
        numbers = [exact.decode(exact.encode(s, *widths), *widths) for s in sums]  # type: ignore[misc]
    return numbers[0]


@pytest.mark.parametrize(("name", "widths"), [("bf16", (8, 7)), ("float16", (5, 10))])
def test_sums_are_rounded_at_every_step(repaired, given, name, widths):
    rows = given[f"rows_{name}"].view(np.uint16)
    numbers = [[exact.decode(bits, *widths) for bits in row] for row in rows.tolist()]
    stepwise = [exact.encode(_tree(row, widths), *widths) for row in numbers]
    assert repaired[f"sum_{name}"].view(np.uint16).tolist() == stepwise
    once = []
    for row in numbers:
        total = row[0]
        for number in row[1:]:
            total = exact.add(total, number)
        once.append(exact.encode(total, *widths))
    assert stepwise != once  # the rows do tell a 16-bit sum from a better one


def test_other_reductions(repaired, given):
    rows = given["rows_bf16"]
    values = (rows.astype(np.uint32) << 16).view(np.float32)
    best = {"max": values.argmax(axis=1), "min": values.argmin(axis=1)}
    for name, at in best.items():
        assert (repaired[f"{name}_bf16"] == rows[np.arange(len(rows)), at]).all()
    for row, running in zip(rows, repaired["cumsum"], strict=True):
        total = _number(row[0])
        for bits, sum_so_far in zip(row[1:], running[1:], strict=True):
            total = _number(exact.to_bf16(exact.add(total, _number(bits))))
            assert exact.to_bf16(total) == sum_so_far
    assert repaired["atomic_add"][0] == repaired["cumsum"][0, -1]
    assert (repaired["sum_in_order"] == repaired["cumsum"][:4, -1]).all()


def test_constants_and_dot(repaired, given):
    assert (repaired["full"] == 0x3E9A).all()  # 0.3 is 0x3E99999A in float32
    a, b = ((given["rows_bf16"][i].astype(np.uint32) << 16).view(np.float32) for i in (0, 1))
    product = a.reshape(16, 16).astype(np.float64) @ b.reshape(16, 16).astype(np.float64)
    assert np.abs(repaired["dot"] - product).max() < 1e-4


def test_stock_interpreter_fails(given, tmp_path):
    """If this fails, Triton repaired bfloat16 itself: look whether the repair is still needed."""
    stock = _run("stock", given, tmp_path)
    assert wrong_upcasts(stock["upcast"]) > 0
    assert wrong(stock["downcast"], expected_bf16(float32_numbers())) > len(FLOAT32_BITS) // 4
    nan = (FLOAT32_BITS & 0x7FFFFFFF) > 0x7F800000
    assert ((stock["downcast"][nan] & 0x7FFF) == 0x7F80).any()  # a NaN that became Inf
    products = _with_bits(exact.multiply, given["a"], given["b"])
    assert "multiply" not in stock or wrong(stock["multiply"], products) > len(products) // 2


def test_unknown_version_is_refused(monkeypatch):
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(triton, "__version__", "3.10.0")
    assert not interpreter.supported()
    with pytest.raises(interpreter.InterpreterUnsupported, match=r"3\.9 only, but 3\.10\.0 is"):
        interpreter.repair()


def test_nothing_is_patched_without_the_variable(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not interpreter.repair()
    assert not interpreter.needs_repair()
