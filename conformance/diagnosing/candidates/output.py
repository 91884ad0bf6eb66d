"""Outputs that are no norm at all: zeros, a copy, another order of columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from conformance.diagnosing.candidate import Candidate, Rows
from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import Parts

ORDER = 120


def candidates(problem: Problem) -> Iterator[Candidate]:
    yield Candidate("zeros", "ACCURACY-INTERVAL", "y is 0 everywhere", _zeros)
    yield Candidate("copy", "FORMULA-ROOT", "y is a copy of the input", _copy)
    if problem.hidden_size > 1:
        yield Candidate(
            "columns_reversed", "ACCURACY-INTERVAL", "the columns are written in reverse order", _reversed
        )
    if problem.n_rows > 1:
        for name, sentence, step in (
            ("row_before", "each row of y is that of the row before", -1),
            ("row_after", "each row of y is that of the row after", 1),
        ):
            yield Candidate(name, "FORMULA-ROWS", sentence, partial(_other_row, step=step))


def _zeros(rows: Rows) -> Iterator[Parts]:
    one = torch.ones_like(rows.x[:, :1])
    yield rows.parts(torch.zeros_like(rows.x), one, weight=None)


def _copy(rows: Rows) -> Iterator[Parts]:
    one = torch.ones_like(rows.x[:, :1])
    tensors = [rows.x]
    if rows.residual is not None:
        tensors += [rows.residual, *(numerator for numerator, _ in rows.sources[:2])]
    for tensor in tensors:
        yield rows.parts(tensor, one, weight=None)


def _reversed(rows: Rows) -> Iterator[Parts]:
    for parts in rows.right():
        weights = (parts.weight,) if parts.weight is None else (parts.weight, parts.weight.flip(-1))
        for weight in weights:
            yield rows.parts(parts.numerator.flip(-1), parts.rrms, weight=weight)


def _other_row(rows: Rows, step: int) -> Iterator[Parts]:
    last = rows.all_rows.n_rows - 1
    at = rows.index + step
    known = ((at >= 0) & (at <= last))[:, None]
    for numerator, source in rows.sources_of(at.clamp(0, last)):
        rrms = 1.0 / (source.square().mean(-1, keepdim=True) + rows.eps).sqrt()
        yield rows.parts(numerator, rrms, known=known)
