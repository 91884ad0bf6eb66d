"""Fewer rows and narrower rows: how the smallest failing size is looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from conformance.minimise.simpler import Fails, Step, tidied
from conformance.model import Fill, Run

FIRST_WIDTHS = (1, 2, 3, 7, 8, 16, 33)
"""Widths tried before any search: the smallest of each kind, odd, one vector, and just past a warp."""

FIRST_ROWS = (1, 2, 3)


def smallest(current: int, first: Sequence[int], fails: Callable[[int], bool]) -> int:
    """The smallest failing size that is found, where `current` fails.

    First the sizes of `first`; then a bisection among the powers of two and their neighbours, where most
    kernels change their ways, and one between the two that this leaves. Where failing is monotone in the
    size, the result is the smallest of all.
    """
    low = 0
    for size in first:
        if size >= current:
            break
        if fails(size):
            return _bisected(range(low, size + 1), fails)[1]
        low = size
    edges = sorted({2**k + d for k in range(current.bit_length() + 1) for d in (-1, 0, 1)})
    low, high = _bisected([low, *(e for e in edges if low < e < current), current], fails)
    return _bisected(range(low, high + 1), fails)[1]


def _bisected(sizes: Sequence[int], fails: Callable[[int], bool]) -> tuple[int, int]:
    """Two neighbours out of `sizes`: one that passes, or the first of all, and one that fails."""
    low, high = 0, len(sizes) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if fails(sizes[middle]):
            high = middle
        else:
            low = middle
    return sizes[low], sizes[high]


def _along(dimension: int, first: Sequence[int]) -> Step:
    """A step that shortens one dimension; negative counts from the end, one that is not there stays."""

    def step(run: Run, fails: Fails) -> Run:
        if not -len(run.shape) <= dimension or run.shape[dimension] < 2:
            return run
        found = smallest(run.shape[dimension], first, lambda size: fails(resized(run, dimension, size)))
        return resized(run, dimension, found)

    return step


STEPS: tuple[Step, ...] = (*(_along(d, FIRST_ROWS) for d in (-2, -3, -4)), _along(-1, FIRST_WIDTHS))
"""Rows, by each leading dimension of its own, then the width."""


def resized(run: Run, dimension: int, size: int) -> Run:
    """The run with one dimension shortened; elements that a fill sets beyond the end move to the end."""
    shape = list(run.shape)
    shape[dimension] = size
    if tuple(shape) == run.shape:
        return run
    shorter = replace(run, shape=tuple(shape))
    rows, width = shorter.n_rows, shorter.hidden_size
    fills = {t: _within(fill, 1 if t == "weight" else rows, width) for t, fill in run.fills.items()}
    return tidied(replace(shorter, fills=fills))


def _within(fill: Fill, rows: int, width: int) -> Fill:
    put = {(_inside(row, rows), _inside(column, width)): value for row, column, value in fill.put}
    return replace(
        fill,
        put=tuple((row, column, value) for (row, column), value in put.items()),
        zero_rows=tuple(dict.fromkeys(_inside(row, rows) for row in fill.zero_rows)),
        row_scales=fill.row_scales[:rows],
    )


def _inside(index: int, length: int) -> int:
    return max(-length, min(index, length - 1))
