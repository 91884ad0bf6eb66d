"""Which elements are wrong, in words: rows, columns, a period, a boundary, a kind of value."""

from __future__ import annotations

import math

from torch import Tensor

from conformance.numerics.conventions import Convention, Problem
from conformance.numerics.intervals import parts_of

_DENSE = 0.6
"""A pattern is named where at least this part of its elements is wrong: a wrong row may hold right ones by
chance."""


def describe(problem: Problem, y: Tensor, wrong: Tensor, best: Convention) -> tuple[str, ...]:
    """Sentences about the True elements of `wrong`, (n_rows, hidden_size), under the convention that comes
    nearest."""
    if not bool(wrong.any()):
        return ()
    parts = parts_of(problem, best)
    expected = parts.numerator * parts.rrms
    if parts.weight is not None:
        expected = expected * parts.weight
    return describe_elements(y, wrong, expected)


def describe_elements(actual: Tensor, wrong: Tensor, expected: Tensor) -> tuple[str, ...]:
    """The same for any tensor, (rows, columns), and what it should be; a vector is one row."""
    count = int(wrong.sum())
    if count == 0:
        return ()
    return (*_values(actual[wrong], expected[wrong], count), *_places(wrong, count))


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
            edge = (
                f", where {first} is 2**{first.bit_length() - 1}"
                if first > 1 and not first & (first - 1)
                else ""
            )
            return f"only the last {n} of {length} {what}s (from {first} on{edge})"
        if first == 0:
            return f"only the first {n} of {length} {what}s"
        return f"only {what}s {first} to {last} of {length}"
    step = math.gcd(*(index - first for index in found[1:]))
    if step > 1 and n >= 3 and n >= 0.9 * ((length - first - 1) // step + 1):
        return f"only every {_ordinal(step)} {what}, from {first} on"
    shown = ", ".join(map(str, found[:8])) + (", ..." if n > 8 else "")
    return f"only {n} of {length} {what}s ({shown})"


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
