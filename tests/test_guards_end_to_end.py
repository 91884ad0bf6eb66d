"""A store of one element too many, or one too few, is found through a real worker and located."""

from __future__ import annotations

import pytest
from small_runs import Tried, failing, run

ROWS = 3
SOURCE = """
import ctypes

# What goes wrong at which width; at any other the same code is right.
STORES = {33: "row_end", 34: "end", 35: "start", 36: "gap_before"}
FACTORIES = {41: "empty", 42: "zeros", 43: "empty_like", 44: "new_empty", 45: "full", 46: "scratch"}
UNWRITTEN = {51, 52}


def rms_norm(x, weight, eps=1e-6, out=None):
    width = x.shape[-1]
    y = norm(x, weight, eps)
    if out is None:
        return _allocated(x, y, width)
    if width in UNWRITTEN:
        wanted = torch.arange(y.numel()).view_as(y) != width + 4  # all but [1, 4]
        out[wanted] = y[wanted]
        return out
    out.copy_(y)
    if width in STORES:
        last = (out.shape[0] - 1) * out.stride(0) + width
        at = {"row_end": out.stride(0) + width, "end": last, "start": -1, "gap_before": out.stride(0) - 1}
        first = out.storage_offset() + at[STORES[width]]
        torch.as_strided(out, (1,), (1,), first).fill_(1.0)
    return out


def _allocated(x, y, width):
    factory = FACTORIES.get(width, "empty_like")
    made = {
        "empty": lambda: torch.empty(x.shape, dtype=x.dtype),
        "zeros": lambda: torch.zeros(x.shape, dtype=x.dtype),
        "empty_like": lambda: torch.empty_like(y),
        "new_empty": lambda: y.new_empty(y.shape),
        "full": lambda: torch.full(x.shape, 2.0, dtype=x.dtype),
        "scratch": lambda: torch.empty_like(y),
    }[factory]()
    made.copy_(y)
    touched = torch.zeros(7) if factory == "scratch" else made
    if width in FACTORIES:
        for end in (touched.numel() * touched.element_size(), -touched.element_size()):
            ctypes.memset(touched.data_ptr() + end, 0, touched.element_size())
    if width in UNWRITTEN:
        made = torch.empty_like(y)
        made.view(-1)[:-1].copy_(y.view(-1)[:-1])
    return made
"""


@pytest.fixture(scope="module")
def spec(tried: Tried) -> str:
    return tried.write("stray_stores", SOURCE)


def into_out(width: int, layout: str = "row_slice"):
    return run(width, ROWS, dtype="bfloat16", out=True, layouts={"out": layout})


@pytest.mark.parametrize(
    ("width", "layout", "side", "offset", "place"),
    [
        (33, "row_slice", "between rows", 128 + 33, "row 1, column 33"),
        (33, "column_offset", "between rows", 128 + 33, "row 1, column 33"),
        (36, "row_slice", "between rows", 128 - 1, "row 1, column -1"),
        (34, "row_slice", "past the end", 2 * 128 + 34, ""),
        (34, "contiguous", "past the end", 3 * 34, ""),
        (35, "row_slice", "before the start", -1, ""),
        (35, "contiguous", "before the start", -1, ""),
        (35, "odd_base", "before the start", -1, ""),
    ],
)
def test_a_stray_store_into_out_is_located(
    tried: Tried, spec: str, width: int, layout: str, side: str, offset: int, place: str
) -> None:
    """One element past a row, past the end, or before the start of `out` fails MEM-WRITE at that element."""
    finding = failing(tried.verdict(spec, into_out(width, layout)), "MEM-WRITE")
    assert finding.where == {"tensor": "out", "side": side, "offset": offset}
    assert place in finding.message


@pytest.mark.parametrize("width", [41, 42, 43, 44, 45, 46])
def test_a_stray_store_beside_an_own_allocation_is_located(tried: Tried, spec: str, width: int) -> None:
    """One element on either side of what empty, zeros, empty_like, new_empty or full gave fails MEM-WRITE."""
    verdict = tried.verdict(spec, run(width, ROWS))
    sides = {f.where["side"]: f.message for f in verdict.failed if f.requirement == "MEM-WRITE"}
    assert set(sides) == {"before the start", "past the end"}, verdict
    assert "4 bytes written" in sides["past the end"]
    assert "(0 elements) from its end" in sides["past the end"]
    assert "(-1 elements) from its start" in sides["before the start"]
    assert ("(7,)" if width == 46 else f"({ROWS}, {width})") in sides["past the end"]


def test_an_element_of_an_own_allocation_that_nobody_wrote_is_named(tried: Tried, spec: str) -> None:
    """The last element of a tensor from empty_like, left unwritten, fails MEM-UNWRITTEN with its index."""
    finding = failing(tried.verdict(spec, run(51, ROWS)), "MEM-UNWRITTEN")
    assert finding.where == {"tensor": "y", "index": [ROWS - 1, 50]}
    assert "1 of 153 elements" in finding.message


@pytest.mark.parametrize("layout", ["contiguous", "row_slice", "column_step"])
def test_an_element_of_out_that_nobody_wrote_is_named(tried: Tried, spec: str, layout: str) -> None:
    """An element of `out` that holds what the suite put there before the call fails MEM-UNWRITTEN."""
    finding = failing(tried.verdict(spec, into_out(52, layout)), "MEM-UNWRITTEN")
    assert finding.where == {"tensor": "y", "index": [1, 4]}


@pytest.mark.parametrize("layout", ["contiguous", "row_slice", "column_offset", "column_step", "odd_base"])
def test_the_same_code_without_the_stray_store_passes(tried: Tried, spec: str, layout: str) -> None:
    """At a width without a fault both ways of the same implementation pass."""
    for asked in (into_out(48, layout), run(48, ROWS), run(48, ROWS, dtype="bfloat16")):
        verdict = tried.verdict(spec, asked)
        assert verdict.verdict == "pass", verdict
