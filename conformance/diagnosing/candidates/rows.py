"""Faults across rows: the statistic of another row, of several, or of part of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Candidate, Rows
from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import Parts

ORDER = 60

_ROWS = "FORMULA-ROWS"


def candidates(problem: Problem) -> Iterator[Candidate]:
    n = problem.n_rows
    if n > 1:
        table: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
            "statistic_of_previous_row": (
                "each row is scaled by the statistic of the row before",
                lambda t: t.roll(1, 0),
            ),
            "statistic_of_next_row": (
                "each row is scaled by the statistic of the row after",
                lambda t: t.roll(-1, 0),
            ),
            "statistic_of_first_row": (
                "every row is scaled by the statistic of the first",
                lambda t: t[:1].expand(n, 1),
            ),
            "statistic_of_last_row": (
                "every row is scaled by the statistic of the last",
                lambda t: t[-1:].expand(n, 1),
            ),
            "statistic_of_all_rows": (
                "every row is scaled by one statistic of the whole tensor",
                lambda t: t.mean(0, keepdim=True).expand(n, 1),
            ),
            "statistic_accumulates": (
                "the sum of squares is not set to 0 between rows",
                lambda t: t.cumsum(0),
            ),
        }
        for name, (sentence, change) in table.items():
            # Which row stands before the first, or behind the last, is not ours to know.
            unknown = {"statistic_of_previous_row": 0, "statistic_of_next_row": n - 1}.get(name)
            yield _shared(name, sentence, change, unknown)
        for count in (2, 4, 8, 16, 32, 64):
            if count // 2 < n:
                yield _shared(
                    f"statistic_of_{count}_rows",
                    f"{count} rows share one statistic",
                    partial(_pooled, count=count),
                )
                yield _shared(
                    f"statistic_of_first_of_{count}",
                    f"{count} rows share the statistic of the first of them",
                    partial(_first_of, count=count),
                )
    sizes = {max(1, problem.hidden_size // 2): "half"} | {
        1 << k: f"run of {1 << k} columns" for k in range(1, 14)
    }
    for width, text in sizes.items():
        if width < problem.hidden_size:
            yield Candidate(
                f"statistic_of_{width}_columns",
                _ROWS,
                f"each {text} of a row is scaled by a statistic of its own",
                partial(_by_columns, width=width),
            )


def _shared(
    name: str, sentence: str, change: Callable[[Tensor], Tensor], unknown: int | None = None
) -> Candidate:
    """A fault that gives rows another row's sum of squares, told for all rows (n_rows, 1) at once."""

    def build(rows: Rows) -> Iterator[Parts]:
        for (numerator, _), totals in zip(rows.sources, rows.totals_of_all, strict=True):
            total = change(totals)[rows.index]
            known = None if unknown is None else (rows.index != unknown)[:, None]
            yield rows.parts(numerator, 1.0 / (total / rows.hidden_size + rows.eps).sqrt(), known=known)

    return Candidate(name, _ROWS, sentence, build)


def _pooled(totals: Tensor, count: int) -> Tensor:
    group = torch.arange(len(totals), device=totals.device) // count
    sums = torch.zeros(int(group[-1]) + 1, dtype=totals.dtype, device=totals.device)
    sums.index_add_(0, group, totals[:, 0])
    return (sums / torch.bincount(group))[group][:, None]


def _first_of(totals: Tensor, count: int) -> Tensor:
    return totals[torch.arange(len(totals), device=totals.device) // count * count]


def _by_columns(rows: Rows, width: int) -> Iterator[Parts]:
    size = rows.hidden_size
    run = torch.arange(size, device=rows.x.device) // width
    lengths = torch.bincount(run)
    for numerator, squares in rows.squares:
        padded = torch.nn.functional.pad(squares, (0, -size % width))
        means = padded.unflatten(-1, (-1, width)).sum(-1) / lengths
        yield rows.parts(numerator, (1.0 / (means + rows.eps).sqrt())[:, run])
