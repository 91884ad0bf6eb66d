"""Faults of the weight: ignored, changed, indexed by something else than the column, offset forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Candidate, Rows, by_weight
from conformance.numerics.conventions import Problem
from conformance.numerics.rounding import nearest

ORDER = 57

_APPLIED, _INDEX, _OFFSET = "FORMULA-WEIGHT", "FORMULA-WEIGHT-INDEX", "FORMULA-WEIGHT-OFFSET"

Change = Callable[[Tensor, Rows], Tensor | None]


def candidates(problem: Problem) -> Iterator[Candidate]:
    if problem.weight is None:
        return
    stored, offset = problem.weight, problem.weight_offset
    applied: dict[str, tuple[str, Change]] = {
        "weight_ignored": ("the weight is ignored", lambda w, rows: None),
        "weight_absolute": ("the sign of the weight is lost", lambda w, rows: w.abs()),
        "weight_zero_is_one": ("a weight of 0 counts as 1", lambda w, rows: w.where(w != 0, 1.0)),
        "weight_not_negative": ("negative weights count as 0", lambda w, rows: w.clamp_min(0.0)),
        "weight_squared": ("the weight is applied twice", lambda w, rows: w * w),
        "weight_divides": ("x_hat is divided by the weight", lambda w, rows: 1.0 / w),
        "weight_negated": ("y has the opposite sign", lambda w, rows: -w),
    }
    for name, (sentence, change) in applied.items():
        yield by_weight(name, _APPLIED, sentence, change)
    if offset:
        sentence = f"the weight_offset {offset:g} is not added"
        yield by_weight("weight_offset_missing", _OFFSET, sentence, lambda w, rows: stored)
        sentence = f"the weight_offset {offset:g} is added twice"
        yield by_weight("weight_offset_twice", _OFFSET, sentence, lambda w, rows: w + offset)
    else:
        sentence = "1 is added to the weight, although no weight_offset was asked for"
        yield by_weight("weight_plus_one", _OFFSET, sentence, lambda w, rows: w + 1.0)
    yield from _rounded(problem)
    yield from _indexed(problem)


def _rounded(problem: Problem) -> Iterator[Candidate]:
    for dtype in sorted({"float16", "bfloat16"} - {problem.weight_dtype}):
        yield by_weight(
            f"weight_in_{dtype}",
            "DTYPE-MIXED" if dtype == problem.x_dtype else "ACCURACY-INTERVAL",
            f"the weight is rounded from {problem.weight_dtype} to {dtype} before it is used",
            partial(_in_dtype, dtype=dtype),
        )


def _in_dtype(weight: Tensor, rows: Rows, dtype: str) -> Tensor:
    return nearest(weight, dtype)


def _restarted(row: Tensor, column: Tensor, width: int) -> Tensor:
    return column % width + 0 * row


def _indexed(problem: Problem) -> Iterator[Candidate]:
    size = problem.hidden_size
    if size < 2:
        return

    def moved(index: Callable[[Tensor, Tensor], Tensor]) -> Change:
        """A weight read at index(row, column); beyond its end it reads as 0."""

        def change(w: Tensor, rows: Rows) -> Tensor:
            at = index(rows.index[:, None], torch.arange(size, device=w.device))
            inside = (at >= 0) & (at < size)
            return w[at.clamp(0, size - 1)].where(inside, 0.0)

        return change

    table: dict[str, tuple[str, Change]] = {
        "weight_reversed": ("the weight is read from its end", moved(lambda r, c: size - 1 - c + 0 * r)),
        "weight_shifted": ("the weight is read one element too far", moved(lambda r, c: c + 1 + 0 * r)),
        "weight_shifted_back": (
            "the weight is read one element too early",
            moved(lambda r, c: c - 1 + 0 * r),
        ),
        "weight_shifted_round": (
            "the weight is read one element too far",
            moved(lambda r, c: (c + 1 + 0 * r) % size),
        ),
        "weight_moves": ("the weight is read one element further for every row", moved(lambda r, c: c + r)),
        "weight_moves_round": (
            "the weight is read one element further for every row, and starts again at its end",
            moved(lambda r, c: (c + r) % size),
        ),
        "weight_row_offset": (
            "the weight is read with the offset of the row, as if it had one row for each",
            moved(lambda r, c: c + r * size),
        ),
        "weight_by_row": ("the weight is read by row, not by column", moved(lambda r, c: r + 0 * c)),
        "weight_by_row_round": (
            "the weight is read by row, not by column",
            moved(lambda r, c: (r + 0 * c) % size),
        ),
        "weight_first_only": ("the first weight is used for every column", moved(lambda r, c: 0 * (r + c))),
    }
    for name, (sentence, change) in table.items():
        yield by_weight(name, _INDEX, sentence, change)
    for width in (1 << k for k in range(1, 14)):
        if width < size:
            yield by_weight(
                f"weight_restarts_{width}",
                _INDEX,
                f"the weight is read from its start again after every {width} columns",
                moved(partial(_restarted, width=width)),
            )
