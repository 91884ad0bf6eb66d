"""Faults of the sum over the rows in dweight: rows left out or added twice, blocks of them lost, a mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.gradient_columns import DweightCandidate, Reading, Sum
from conformance.numerics.gradient_conventions import GradientProblem

ORDER = 166

_ROWS = "DWEIGHT-ROWS"
_BLOCKS = tuple(1 << k for k in range(1, 16))


def dweight_candidates(problem: GradientProblem, leading: tuple[int, ...]) -> Iterator[DweightCandidate]:
    n = problem.forward.n_rows
    yield DweightCandidate("dweight_zero", _ROWS, "dweight is 0 everywhere", _zero)
    factors: dict[str, tuple[float, str]] = {
        "dweight_twice": (2.0, "dweight is twice what it should be: every row is added twice"),
        "dweight_three_times": (3.0, "dweight is three times what it should be"),
        "dweight_halved": (0.5, "dweight is half of what it should be"),
    }
    if n > 1:
        factors["dweight_mean"] = (1.0 / n, f"dweight is the mean over the {n} rows, not their sum")
    for name, (factor, sentence) in factors.items():
        yield DweightCandidate(name, _ROWS, sentence, partial(_times, factor=factor))
    known = {n // leading[0]} if len(leading) > 1 else set()  # of one batch element: the axes say more
    for name, (sentence, kept) in _left_out(n, known).items():
        yield DweightCandidate(name, _ROWS, sentence, partial(_only, kept=kept))
    if n > 1:
        for name, words, at in (("first", "first", 0), ("last", "last", n - 1)):
            sentence = f"the {words} row is added to dweight twice"
            yield DweightCandidate(f"dweight_{name}_row_twice", _ROWS, sentence, partial(_again, at=at))
    missing = {-n % block for block in _BLOCKS} - {0, 1}
    for count in sorted(missing):
        sentence = f"the last row is added to dweight {count} times more, as what a block of rows lacks"
        build = partial(_again, at=n - 1, times=float(count))
        yield DweightCandidate(f"dweight_last_row_again_{count}", _ROWS, sentence, build)


def _left_out(n: int, known: set[int]) -> dict[str, tuple[str, Callable[[Tensor], Tensor]]]:
    """Which rows enter the sum: name -> (words, mask over the row numbers)."""
    found: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {}
    ends = {n - 1: "the last row is not added to dweight", 1: "only the first row is added to dweight"}
    for block in _BLOCKS:
        if block < n:
            if n % block:
                left = f"the last {n % block} rows, what is left over after blocks of {block}"
                text = f"{left}, are not added to dweight"
                ends.setdefault(n - n % block, text)
            ends.setdefault(block, f"only the first {block} rows are added to dweight")
    for stop, text in ends.items():
        if 0 < stop < n and stop not in known:
            found[f"dweight_first_{stop}_rows"] = (text, partial(_below, stop=stop))
    starts = {1: "the first row is not added to dweight", n - 1: "only the last row is added to dweight"}
    for block in _BLOCKS:
        if block < n:
            starts.setdefault(block, f"the first {block} rows are not added to dweight")
            starts.setdefault(
                (n - 1) // block * block, f"only the last block of {block} rows is added to dweight"
            )
    for start, text in starts.items():
        if 0 < start < n:
            found[f"dweight_from_row_{start}"] = (text, partial(_from, start=start))
    for block in (1, *_BLOCKS):
        for half, words in ((0, "even"), (1, "odd")):
            if n > block:
                text = f"only the {words} blocks of {block} rows are added to dweight"
                found[f"dweight_{words}_blocks_of_{block}"] = (text, partial(_half, block=block, half=half))
        for every in (4, 8, 16, 32):
            if n >= block * every:
                text = f"every {every}th block of {block} rows is not added to dweight"
                kept = partial(_not_last_block, block=block, every=every)
                found[f"dweight_loses_{every}th_block_of_{block}"] = (text, kept)
        if 1 < block < n:
            text = f"only every {block}th row is added to dweight, one of a block"
            found[f"dweight_every_{block}_rows"] = (text, partial(_every, block=block))
            text = f"the last row of every block of {block} is not added to dweight"
            found[f"dweight_without_last_of_{block}"] = (text, partial(_not_last, block=block))
    return found


def measured(r: Reading, values: Tensor, room: Tensor) -> Iterator[DweightCandidate]:
    """The rows that are left out, or added again, read off a dweight of some columns, each (columns,).

    For numbers of rows that no block size gives. The first fit of each kind; whether it holds is for the
    caller to judge.
    """
    terms = r.columns.dy * r.x_hat
    sums = terms.cumsum(0)
    kinds: dict[str, tuple[str, Tensor, Callable[[int], Callable[[Reading], Iterator[Sum]]]]] = {
        "dweight_first_rows": (
            "only the first {} rows are added to dweight",
            sums,
            lambda i: partial(_only, kept=partial(_below, stop=i + 1)),
        ),
        "dweight_last_rows": (
            "the first {} rows are not added to dweight",
            sums[-1] - sums,
            lambda i: partial(_only, kept=partial(_from, start=i + 1)),
        ),
        "dweight_without_row": (
            "row number {}, counted from 1, is not added to dweight",
            sums[-1] - terms,
            lambda i: partial(_only, kept=partial(_not_row, at=i)),
        ),
        "dweight_row_twice": (
            "row number {}, counted from 1, is added to dweight twice",
            sums[-1] + terms,
            lambda i: partial(_again, at=i),
        ),
    }
    for name, (sentence, table, build) in kinds.items():
        fits = ((table - values).abs() <= room).all(-1).nonzero()[:1, 0].tolist()
        if fits:
            yield DweightCandidate(name, _ROWS, sentence.format(fits[0] + 1), build(fits[0]))


def _not_row(row: Tensor, at: int) -> Tensor:
    return row != at


def _below(row: Tensor, stop: int) -> Tensor:
    return row < stop


def _from(row: Tensor, start: int) -> Tensor:
    return row >= start


def _half(row: Tensor, block: int, half: int) -> Tensor:
    return row // block % 2 == half


def _every(row: Tensor, block: int) -> Tensor:
    return row % block == 0


def _not_last(row: Tensor, block: int) -> Tensor:
    return row % block != block - 1


def _not_last_block(row: Tensor, block: int, every: int) -> Tensor:
    return row // block % every != every - 1


def _zero(r: Reading) -> Iterator[Sum]:
    nothing = torch.zeros_like(r.columns.dy[0])
    yield Sum(nothing, nothing, nothing, nothing)


def _times(r: Reading, factor: float) -> Iterator[Sum]:
    yield r.summed().times(factor)


def _only(r: Reading, kept: Callable[[Tensor], Tensor]) -> Iterator[Sum]:
    at = kept(torch.arange(r.columns.n_rows, device=r.columns.dy.device)).nonzero()[:, 0]
    yield r.summed(r.x_hat[at], r.columns.dy[at], r.statistic.relative[at])


def _again(r: Reading, at: int, times: float = 1.0) -> Iterator[Sum]:
    row = slice(at, at + 1)
    more = r.summed(r.x_hat[row], r.columns.dy[row], r.statistic.relative[row])
    yield r.summed().plus(more.times(times))
