"""Faults of the sum: columns left out, counted twice, or read beyond the row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Candidate, Rows, by_total, power_of_two, up_to_multiple
from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import Parts

ORDER = 61

_TAIL = "TAIL-COLUMNS"
_WIDTHS = tuple(1 << k for k in range(1, 15))


def _total(squares: Tensor) -> Tensor:
    return squares.sum(-1, keepdim=True)


def candidates(problem: Problem) -> Iterator[Candidate]:
    size = problem.hidden_size
    yield from _left_out(size)
    yield from _twice(size)
    yield from _beyond(problem)


def _left_out(size: int) -> Iterator[Candidate]:
    dropped = {k: f"the last {k}" if k > 1 else "the last column" for k in (1, 2, 3, 4)}
    for width in _WIDTHS:
        if size > width and size % width:
            text = f"the last {size % width}, what is left over after steps of {width}"
            dropped[size % width] = text
        if size > width:
            dropped.setdefault(size - width, f"all but the first {width}")
    dropped[size - power_of_two(size + 1) // 2] = "all beyond the power of two below hidden_size"
    for k, text in dropped.items():
        if 0 < k < size:
            yield by_total(
                f"drops_last_{k}",
                _TAIL,
                f"the sum of squares leaves out columns: {text} (of {size})",
                partial(_without_last, k=k),
            )
    if size > 1:
        yield by_total(
            "drops_first",
            _TAIL,
            "the sum of squares leaves out the first column",
            lambda squares: _total(squares[:, 1:]),
        )
    for lanes in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        if size >= lanes:
            for half, text in ((0, "first"), (1, "second")):
                yield by_total(
                    f"sums_{text}_half_of_{lanes}",
                    _TAIL,
                    f"only the {text} half of every {lanes} columns enters the sum of squares",
                    partial(_half, lanes=lanes, second=bool(half)),
                )
    for group in (1, 2, 4, 8, 16, 32, 64):
        yield by_total(
            f"tree_loses_odd_sums_{group}",
            _TAIL,
            f"a tree sum over groups of {group} columns loses a partial sum wherever their number is odd",
            partial(_lossy_tree, group=group),
        )


def _without_last(squares: Tensor, k: int) -> Tensor:
    return _total(squares[:, :-k])


def _half(squares: Tensor, lanes: int, second: bool) -> Tensor:
    lane = torch.arange(squares.shape[1], device=squares.device) % lanes
    return _total(squares[:, (lane >= lanes // 2) == second])


def _lossy_tree(squares: Tensor, group: int) -> Tensor:
    missing = -squares.shape[1] % group
    partial = torch.nn.functional.pad(squares, (0, missing)).unflatten(-1, (-1, group)).sum(-1)
    while partial.shape[-1] > 1:
        half = partial.shape[-1] // 2
        partial = partial[:, :half] + partial[:, half : 2 * half]
    return partial


def _twice(size: int) -> Iterator[Candidate]:
    yield by_total(
        "counts_last_twice",
        _TAIL,
        "the last column is counted twice in the sum of squares",
        lambda squares: _total(squares) + squares[:, -1:],
    )
    for width in _WIDTHS:
        if size > width:
            yield by_total(
                f"counts_borders_twice_{width}",
                _TAIL,
                f"the column after every {width} is counted twice in the sum of squares",
                partial(_borders_twice, width=width),
            )
        if size > width and size % width:
            yield by_total(
                f"counts_tail_twice_{width}",
                _TAIL,
                f"the last step of {width} columns is moved back: {width - size % width} are counted twice",
                partial(_tail_twice, width=width),
            )


def _borders_twice(squares: Tensor, width: int) -> Tensor:
    return _total(squares) + _total(squares[:, width::width])


def _tail_twice(squares: Tensor, width: int) -> Tensor:
    size = squares.shape[1]
    return _total(squares) + _total(squares[:, size - width : size - size % width])


def _beyond(problem: Problem) -> Iterator[Candidate]:
    """Masked lanes that were not 0: ones, or the next row of a dense tensor."""
    size = problem.hidden_size
    lanes = {1: "1", power_of_two(size) - size: "the rest of the tile"}
    for width in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
        lanes.setdefault(up_to_multiple(size, width) - size, f"up to a multiple of {width}")
    lanes.pop(0, None)
    for count, text in lanes.items():
        yield by_total(
            f"tail_of_ones_{count}",
            _TAIL,
            f"{count} lanes beyond the row count as 1 in the sum of squares ({text})",
            partial(_ones, count=count),
        )
        if count <= size and problem.n_rows > 1:
            columns = "element" if count == 1 else f"{count} elements"
            yield Candidate(
                f"counts_next_row_{count}",
                _TAIL,
                f"the sum of squares goes on into the first {columns} of the next row",
                partial(_next_row, count=count),
            )


def _ones(squares: Tensor, count: int) -> Tensor:
    return _total(squares) + count


def _next_row(rows: Rows, count: int) -> Iterator[Parts]:
    last = rows.all_rows.n_rows - 1
    following = rows.sources_of((rows.index + 1).clamp_max(last))
    known = (rows.index < last)[:, None]  # what lies behind the last row is not ours to know
    for (numerator, squares), (_, other) in zip(rows.squares, following, strict=True):
        total = _total(squares) + _total(other[:, :count].square())
        yield rows.parts(numerator, 1.0 / (total / rows.hidden_size + rows.eps).sqrt(), known=known)
