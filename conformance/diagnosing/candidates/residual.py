"""Faults of the residual add: left out, added twice, added at the wrong place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Candidate, Rows
from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import Parts
from conformance.numerics.rounding import nearest

ORDER = 42

_ADDED = "RESIDUAL-ADDED"

_SUMS = {
    "x": "x alone",
    "residual": "the residual alone",
    "x_twice": "x + x + residual",
    "residual_twice": "x + residual + residual",
    "difference": "x - residual",
    "stored_x": "the stored sum + x",
    "stored_residual": "the stored sum + residual",
    "sum": "x + residual",
    "stored": "the stored sum",
}


def candidates(problem: Problem) -> Iterator[Candidate]:
    if not problem.fused:
        return
    for name in _SUMS:
        if name not in ("sum", "stored"):
            yield _candidate(name, name)
    yield Candidate(
        "residual_after_norm",
        _ADDED,
        "the residual is added to the normalised x, not before the norm",
        lambda rows: _after(rows, "x", "residual"),
    )
    yield Candidate(
        "x_after_norm",
        _ADDED,
        "x is added to the normalised residual, not before the norm",
        lambda rows: _after(rows, "residual", "x"),
    )
    for scaled in _SUMS:
        for measured in _SUMS:
            right = {scaled, measured} <= {"sum", "stored"}
            if scaled != measured and not right and not {"stored_x", "stored_residual"} & {measured}:
                yield _candidate(scaled, measured)
    for dtype in sorted({"float16", "bfloat16"} - {problem.residual_dtype}):
        yield Candidate(
            f"residual_in_{dtype}",
            "DTYPE-MIXED" if dtype == problem.x_dtype else _ADDED,
            f"the residual, or the sum, is rounded to {dtype} before the norm",
            partial(_rounded, dtype=dtype),
        )


def _candidate(scaled: str, measured: str) -> Candidate:
    if scaled == measured:
        sentence = f"what is normalised is {_SUMS[scaled]}, not x + residual"
    else:
        sentence = f"{_SUMS[scaled]} is scaled by the statistic of {_SUMS[measured]}"

    def build(rows: Rows) -> Iterator[Parts]:
        source = _sum(rows, measured)
        yield _normalised(rows, _sum(rows, scaled), source)

    return Candidate(f"residual_{scaled}_by_{measured}", _ADDED, sentence, build)


def _sum(rows: Rows, name: str) -> Tensor:
    x, residual = rows.x, rows.residual
    assert residual is not None
    if name == "x":
        return x
    if name == "residual":
        return residual
    if name == "difference":
        return x - residual
    total = x + residual
    if name.startswith("stored"):
        total = nearest(total, rows.all_rows.residual_dtype)
    more = {"x_twice": x, "residual_twice": residual, "stored_x": x, "stored_residual": residual}.get(name)
    return total if more is None else total + more


def _normalised(rows: Rows, numerator: Tensor, source: Tensor, **changes: object) -> Parts:
    rrms = 1.0 / (source.square().mean(-1, keepdim=True) + rows.eps).sqrt()
    return rows.parts(numerator, rrms, **changes)


def _after(rows: Rows, normalised: str, added: str) -> Iterator[Parts]:
    source = _sum(rows, normalised)
    for stored in (False, True):
        yield _normalised(rows, source, source, added=_sum(rows, added), added_to_stored=stored)


def _rounded(rows: Rows, dtype: str) -> Iterator[Parts]:
    assert rows.residual is not None
    for total in (rows.x + nearest(rows.residual, dtype), nearest(rows.x + rows.residual, dtype)):
        yield _normalised(rows, total, total)
        yield _normalised(rows, total, rows.x + rows.residual)
    yield _normalised(
        rows, torch.add(nearest(rows.x, dtype), nearest(rows.residual, dtype)), rows.x + rows.residual
    )
