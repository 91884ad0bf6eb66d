"""Faults across rows and columns of dx: another row's dy, statistic or result, rows and columns left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting, Source
from conformance.numerics.gradient_conventions import GradientProblem

ORDER = 163

_ROWS = "DX-ROWS"


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    yield DxCandidate("dx_zero", _ROWS, "it is 0 everywhere", _zero)
    if problem.dy is None or problem.forward.n_rows < 2:
        return
    places: dict[str, tuple[str, Callable[[Tensor, int], Tensor]]] = {
        "first_row": ("the first row", lambda row, n: torch.zeros_like(row)),
        "row_before": ("the row before", lambda row, n: row - 1),
        "row_after": ("the row after", lambda row, n: row + 1),
        "last_row": ("the last row", lambda row, n: torch.full_like(row, n - 1)),
        "row_reversed": ("the same row from the end", lambda row, n: n - 1 - row),
    }
    readings: dict[str, tuple[str, Callable[[Setting, Setting], Iterator[Form]]]] = {
        "dy": ("every row of dx uses the dy of", _dy_of),
        "x": ("every row of dx uses the x of", _x_of),
        "rrms": ("every row of dx uses the rrms of", _rrms_of),
        "c": ("every row of dx uses the row sum of", _sum_of),
        "all": ("every row of dx holds what belongs to", _all_of),
    }
    for what, (sentence, build) in readings.items():
        for place, (words, at) in places.items():
            yield DxCandidate(
                f"dx_{what}_of_{place}", _ROWS, f"{sentence} {words}", partial(_of, at=at, build=build)
            )
    for count in (2, 4, 8, 16, 32, 64):
        if count // 2 < problem.forward.n_rows:
            yield DxCandidate(
                f"dx_sum_of_{count}_rows",
                _ROWS,
                f"{count} rows share one row sum in dx",
                partial(_sum_of_tile, count=count),
            )
            yield DxCandidate(
                f"dx_rrms_of_first_of_{count}",
                _ROWS,
                f"{count} rows of dx share the rrms of the first of them",
                partial(_of, at=partial(_first_of, count=count), build=_rrms_of),
            )
            yield DxCandidate(
                f"dx_dy_of_first_of_{count}",
                _ROWS,
                f"{count} rows of dx share the dy of the first of them",
                partial(_of, at=partial(_first_of, count=count), build=_dy_of),
            )
    yield DxCandidate(
        "dx_sum_of_all_rows",
        _ROWS,
        "the row sum in dx is one sum over the whole tensor, averaged",
        _sum_of_all,
    )
    yield DxCandidate("dx_mean_of_rows", _ROWS, "every row of dx holds the mean over all rows", _mean_of_rows)


def _first_of(row: Tensor, n_rows: int, count: int) -> Tensor:
    return row // count * count


def _sum_of_tile(s: Setting, count: int) -> Iterator[Form]:
    """Averaged over the rows of the tile, or added up and divided by the row's elements alone."""
    first, n = s.rows.index // count * count, s.rows.n_rows
    mean, scale = torch.zeros_like(s.source.rrms), torch.zeros_like(s.source.rrms)
    held = torch.zeros_like(mean)
    for step in range(count):
        at = first + step
        inside = (at < n)[:, None]
        other = s.other_rows(at.clamp_max(n - 1))
        products = other.source.x_hat * other.a
        mean = mean + torch.where(inside, products.mean(-1, keepdim=True), 0.0)
        scale = scale + torch.where(inside, products.abs().mean(-1, keepdim=True), 0.0)
        held = held + inside
    for divisor in (held, torch.full_like(held, count), torch.ones_like(held)):
        yield _with_sum(s, mean / divisor, scale / divisor)


def _zero(s: Setting) -> Iterator[Form]:
    nothing = torch.zeros_like(s.rows.x)
    yield Form(nothing, nothing, nothing, 0.0)


def _of(
    s: Setting,
    at: Callable[[Tensor, int], Tensor],
    build: Callable[[Setting, Setting], Iterator[Form]],
) -> Iterator[Form]:
    """What stands before the first row, or behind the last, is not ours to know."""
    n = s.rows.n_rows
    where = at(s.rows.index, n)
    inside = ((where >= 0) & (where < n))[:, None]
    for form in build(s, s.other_rows(where.clamp(0, n - 1))):
        yield replace(form, known=None if bool(inside.all()) else inside)


def _dy_of(s: Setting, other: Setting) -> Iterator[Form]:
    yield s.jacobian(s.weighted(other.rows.dy))


def _x_of(s: Setting, other: Setting) -> Iterator[Form]:
    yield s.jacobian(source=Source(other.source.h, s.source.mean, s.source.rrms, s.source.relative))
    yield s.jacobian(source=other.source)


def _rrms_of(s: Setting, other: Setting) -> Iterator[Form]:
    yield s.jacobian(rrms=other.source.rrms)
    form, ratio = s.jacobian(), other.source.rrms / s.source.rrms
    yield replace(
        form, first=form.first * ratio, second=form.second * ratio, second_scale=form.second_scale * ratio
    )


def _sum_of(s: Setting, other: Setting) -> Iterator[Form]:
    products = other.source.x_hat * other.a
    yield _with_sum(s, products.mean(-1, keepdim=True), products.abs().mean(-1, keepdim=True))


def _all_of(s: Setting, other: Setting) -> Iterator[Form]:
    yield other.jacobian()


def _with_sum(s: Setting, mean: Tensor, scale: Tensor) -> Form:
    form = s.jacobian()
    along = s.source.rrms * s.source.x_hat
    return replace(form, second=along * mean, second_scale=along.abs() * (scale + mean.abs()))


def _sum_of_all(s: Setting) -> Iterator[Form]:
    def sums() -> tuple[Tensor, Tensor]:
        every = _every(s)
        products = every.source.x_hat * every.a
        return products.mean(), products.abs().mean()

    yield _with_sum(s, *s.rows.once(f"sum of all, {s.norm_input}, {s.rounds_a}", sums))


def _mean_of_rows(s: Setting) -> Iterator[Form]:
    def means() -> tuple[Tensor | None, ...]:
        form = _every(s).jacobian()
        scale = form.second_scale + form.first.abs()
        whole = (form.first, form.second, scale, form.added)
        return tuple(None if t is None else t.mean(0, keepdim=True) for t in whole)

    found = s.rows.once(f"mean of rows, {s.norm_input}, {s.rounds_a}", means)
    first, second, scale = (t.expand_as(s.rows.x) for t in found[:3])
    added = None if found[3] is None else found[3].expand_as(s.rows.x)
    yield Form(first, second, scale, s.source.relative, added)


def _every(s: Setting) -> Setting:
    return s.other_rows(torch.arange(s.rows.n_rows, device=s.rows.x.device))
