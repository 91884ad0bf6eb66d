"""Fills: the same bits everywhere (pinned digests), and the order in which a fill's fields act."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from conformance.model import Fill
from conformance.numerics.bits import decode
from conformance.numerics.inputs import digest, make

FILLS = {
    "bell": Fill(),
    "bell seed 2": Fill(seed=2),
    "uniform": Fill(kind="uniform", seed=7),
    "constant": Fill(kind="constant", scale=0.1),
    "zeros": Fill(kind="zeros"),
    "scaled rows": Fill(seed=3, row_scales=(1.0, 64.0, 1.0e-3)),
    "mean": Fill(seed=4, mean=3.0),
    "tail": Fill(seed=5, scale=0.5, last_column=20.0),
    "special": Fill(seed=6, zero_every=7, zero_rows=(1, -1), put=((0, 3, "nan"), (2, -1, "-inf"))),
    "tiny": Fill(seed=8, scale=1.0e-39),
    "huge": Fill(seed=9, scale=3.0e4),
}
DTYPES = ("float16", "bfloat16", "float32")

PINNED = {
    "bell/float16": "543aa57381125905",
    "bell/bfloat16": "75cc5f25394553d0",
    "bell/float32": "aef0179cc0f80a03",
    "bell seed 2/float16": "9341e1af067ebe0f",
    "bell seed 2/bfloat16": "1d9558956b7cfbb7",
    "bell seed 2/float32": "23c66b23bcacd698",
    "uniform/float16": "b59d11070dbb3a30",
    "uniform/bfloat16": "db4758026df6d9c7",
    "uniform/float32": "5e1500256d3563c0",
    "constant/float16": "50f1777741afc17b",
    "constant/bfloat16": "622dee2f4a376f16",
    "constant/float32": "938634eaa6fe2225",
    "zeros/float16": "646183c0ff23bc71",
    "zeros/bfloat16": "646183c0ff23bc71",
    "zeros/float32": "5ec2a6022fc13932",
    "scaled rows/float16": "27dac3c219432228",
    "scaled rows/bfloat16": "79659dbcbec353d9",
    "scaled rows/float32": "d80716eae90dc26c",
    "mean/float16": "f3ba0154008a6629",
    "mean/bfloat16": "54f12c244db7a95e",
    "mean/float32": "a0a18e0ed35914b5",
    "tail/float16": "81599c4b92cb86a0",
    "tail/bfloat16": "253776dccbce77b1",
    "tail/float32": "5401208dfc614c36",
    "special/float16": "374b65e10546548f",
    "special/bfloat16": "321b64872bab74a1",
    "special/float32": "f1ba61dd20875bfa",
    "tiny/float16": "1334b3ef26b44b71",
    "tiny/bfloat16": "d98126fd01590b42",
    "tiny/float32": "739fc8944a4c2de9",
    "huge/float16": "939b2e98f574f513",
    "huge/bfloat16": "42a4aa7ded40f1f9",
    "huge/float32": "e546ad1026e83b92",
}


def digests() -> dict[str, str]:
    return {
        f"{name}/{dtype}": digest(make(fill, (5, 257), dtype))[:16]
        for name, fill in FILLS.items()
        for dtype in DTYPES
    }


def values(fill: Fill, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return decode(make(fill, shape, dtype), dtype)


def test_the_bits_are_the_pinned_ones() -> None:
    assert digests() == PINNED


def test_the_bits_do_not_depend_on_the_cpu_capability() -> None:
    """A process that may use no vector instructions in torch makes the same bits, torch imported or not."""
    code = "import json, torch; torch.randn(3)\nimport test_inputs\nprint(json.dumps(test_inputs.digests()))"
    paths = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]
    environment = os.environ | {
        "ATEN_CPU_CAPABILITY": "default",
        "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
    }
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(result.stdout) == PINNED


def test_bell_is_near_normal_and_uniform_is_flat() -> None:
    bell = values(Fill(), (1000, 500))
    assert abs(bell.mean()) < 0.005
    assert abs(bell.std() - 1) < 0.005
    assert 3.2 < abs(bell).max() < 3.4642
    flat = values(Fill(kind="uniform"), (1000, 500), "float64")
    assert abs(flat.mean()) < 0.005
    assert abs(flat.var() - 1 / 3) < 0.005
    assert 0.999 < abs(flat).max() < 1


def test_the_first_rows_of_a_taller_tensor_are_the_shorter_one() -> None:
    fill = Fill(row_scales=(1.0, 2.0))
    assert np.array_equal(
        make(fill, (3, 70), "float16"), make(fill, (2, 5, 70), "float16").reshape(10, 70)[:3]
    )


def test_seeds_give_unrelated_tensors() -> None:
    first, second = values(Fill(seed=1), (200, 500)), values(Fill(seed=2), (200, 500))
    assert abs((first * second).mean()) < 0.02


def test_fields_act_in_their_documented_order() -> None:
    fill = Fill(
        kind="constant", scale=2.0, mean=1.0, row_scales=(1.0, 10.0), zero_every=2, last_column=7.0,
        zero_rows=(2,), put=((2, 0, 5.0), (-3, -1, "inf")),
    )  # fmt: skip
    expected = [[3, 0, 3, 7], [30, 0, 30, np.inf], [5, 0, 0, 0], [30, 0, 30, 7]]
    assert values(fill, (4, 4)).tolist() == expected


def test_a_weight_is_one_row_and_no_rows_are_fine() -> None:
    assert make(Fill(), (9,), "float32").shape == (9,)
    assert np.array_equal(make(Fill(), (9,), "float32"), make(Fill(), (1, 9), "float32")[0])
    assert make(Fill(), (0, 9), "float16").shape == (0, 9)


@pytest.mark.parametrize(
    ("fill", "error", "text"),
    [
        (Fill(kind="normal"), ValueError, "should be one of"),
        (Fill(put=((4, 0, 1.0),)), IndexError, "should lie in -4..3"),
        (Fill(zero_rows=(-5,)), IndexError, "zero_rows names row -5"),
    ],
)
def test_refusals(fill: Fill, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make(fill, (4, 4), "float16")


def test_a_million_elements_take_well_under_a_fifth_of_a_second() -> None:
    def once() -> float:
        start = time.perf_counter()
        make(Fill(), (1000, 1000), "bfloat16")
        return time.perf_counter() - start

    assert min(once() for _ in range(3)) < 0.2


def test_a_digest_is_of_little_endian_bytes() -> None:
    bits = np.array([1, 256], np.uint16)
    assert digest(bits) == digest(bits.astype(">u2")) == digest(bits[None])
    assert digest(bits).startswith("afa75181")
