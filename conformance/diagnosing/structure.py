"""Which elements are wrong, in words: rows, columns, a period, a boundary, a kind of value."""

from __future__ import annotations

import math

from torch import Tensor

from conformance.diagnosing.displaced import displaced
from conformance.numerics.conventions import Convention, Problem
from conformance.numerics.intervals import parts_of

_DENSE = 0.6
"""A pattern is named where at least this part of its elements is wrong: a wrong row may hold right ones by
chance."""
_LEAST_EDGE = 16  # smaller powers of two are so by chance
_MOST_RUNS = 4
"""So many runs of rows or columns are told by their ends."""


def describe(problem: Problem, y: Tensor, wrong: Tensor, best: Convention) -> tuple[str, ...]:
    """Sentences about the True elements of `wrong`, (n_rows, hidden_size), under the convention that comes
    nearest."""
    if not bool(wrong.any()):
        return ()
    parts = parts_of(problem, best)
    expected = parts.numerator * parts.rrms
    if parts.weight is not None:
        expected = expected * parts.weight
    return describe_elements(y, wrong, expected, problem.y_dtype)


def describe_elements(
    actual: Tensor, wrong: Tensor, expected: Tensor, dtype: str = "float32"
) -> tuple[str, ...]:
    """The same for any tensor, (rows, columns), and what it should be; a vector is one row. dtype: in which
    actual was stored."""
    count = int(wrong.sum())
    if count == 0:
        return ()
    moved = displaced(actual, wrong, expected, dtype)
    told = (*_values(actual[wrong], expected[wrong], count), *_places(wrong, count))
    return (*told, moved) if moved else told


def _values(values: Tensor, expected: Tensor, count: int) -> list[str]:
    every = "every wrong element is" if count > 1 else "the wrong element is"
    for kind, found in (("NaN", values.isnan()), ("Inf or -Inf", values.isinf()), ("0", values == 0)):
        share = int(found.sum())
        if share == count:
            return [f"{every} {kind}"]
        if share and kind != "0":
            return [f"{share} of {count} wrong elements are {kind}"]
    if count > 1 and bool(((values + expected).abs() <= 0.02 * expected.abs()).all()):
        return [f"{every} of the right size and the wrong sign"]
    if count > 1 and bool((values == values[0]).all()):
        return [f"{every} {float(values[0]):.6g}"]
    return []


def _places(wrong: Tensor, count: int) -> list[str]:
    n_rows, size = wrong.shape
    rows = wrong.any(-1).nonzero()[:, 0].tolist()
    columns = wrong.any(0).nonzero()[:, 0].tolist()
    told = []
    if len(rows) < n_rows:
        told.append(_one_axis("row", rows, n_rows))
    elif n_rows > 1:
        told.append("every row is affected")
    # A column is one of the pattern only if it is wrong wherever its rows are.
    dense = count >= _DENSE * len(rows) * len(columns)
    if len(columns) == size and dense and size > 1:
        told.append("in every column")
    elif len(columns) < size and (dense or len(columns) <= 3):
        told.append("in " + _one_axis("column", columns, size))
    elif (step := _flat_step(wrong, count)) > 1:
        told = [f"every {_ordinal(step)} element of the tensor is wrong"]
    elif not dense:
        told.append(f"{count} of {len(rows) * size} elements there, without a pattern in the columns")
    return [", ".join(told)] if told else []


def _one_axis(what: str, found: list[int], length: int) -> str:
    """A sentence part about the indices `found` of `length`."""
    first, last, n = found[0], found[-1], len(found)
    if n == 1:
        where = {0: f"the first {what}", length - 1: f"the last {what}"}.get(first, f"{what} {first}")
        return f"only {where} of {length}" if length > 1 else f"the {what}"
    if n == last - first + 1:
        if last == length - 1:
            return f"only the last {n} of {length} {what}s (from {first} on{_edge(first)})"
        if first == 0:
            return f"only the first {n} of {length} {what}s{_edge(n)}"
        return f"only {what}s {first} to {last} of {length}{_edge(first)}"
    step = math.gcd(*(index - first for index in found[1:]))
    if step > 1 and n >= 3 and n >= 0.9 * ((length - first - 1) // step + 1):
        return f"only every {_ordinal(step)} {what}, from {first} on"
    runs = _runs(found)
    if told := _periodic(what, runs, length):
        return told
    if len(runs) <= _MOST_RUNS and n > len(runs):
        shown = ", ".join(f"{a} to {b}" if b > a else str(a) for a, b in runs)
    else:
        shown = ", ".join(map(str, found[:8])) + (", ..." if n > 8 else "")
    return f"only {n} of {length} {what}s ({shown})"


def _edge(at: int) -> str:
    """That `at` is a power of two, where it is: tiles, vectors and caps end there."""
    return f", where {at} is 2**{at.bit_length() - 1}" if at >= _LEAST_EDGE and not at & (at - 1) else ""


def _runs(found: list[int]) -> list[tuple[int, int]]:
    """The runs of indices that follow each other, (first, last) each."""
    runs = [[found[0], found[0]]]
    for index in found[1:]:
        if index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return [(first, last) for first, last in runs]


def _periodic(what: str, runs: list[tuple[int, int]], length: int) -> str:
    """Lanes or tiles: runs of one length that come again after a period; the last may be cut short."""
    if len(runs) < 3:
        return ""
    period, size = runs[1][0] - runs[0][0], runs[0][1] - runs[0][0] + 1
    start = runs[0][0]
    if start >= period and start % period:
        return ""
    expected = [
        (at, min(at + size, length) - 1) for at in range(start, length, period)
    ]  # to the end: a pattern that stops half way is none
    if runs != expected:
        return ""
    inside = f"{start % period} to {start % period + size - 1}" if size > 1 else str(start % period)
    begun = f", from {start} on" if start >= period else ""
    return f"only {what}s {inside} of every {period}{_edge(period)}{begun}"


def _flat_step(wrong: Tensor, count: int) -> int:
    """k where the wrong elements are every k-th of the flattened tensor; else 0."""
    flat = wrong.flatten().nonzero()[:, 0]
    if count < 4:
        return 0
    step = math.gcd(*(flat - flat[0])[1:200].tolist())
    whole = bool(((flat - flat[0]) % max(step, 1) == 0).all())
    return step if whole and count >= 0.9 * ((wrong.numel() - int(flat[0]) - 1) // max(step, 1) + 1) else 0


def _ordinal(n: int) -> str:
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"
