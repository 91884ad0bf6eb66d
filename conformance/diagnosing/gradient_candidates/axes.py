"""Faults of the axes that dweight is reduced over: everything, or the wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from conformance.diagnosing.gradient_columns import DweightCandidate, Reading, Sum
from conformance.diagnosing.gradient_rows import Rows, Setting
from conformance.numerics.gradient_conventions import GradientProblem

ORDER = 165

_AXES = "DWEIGHT-AXES"


def dweight_candidates(problem: GradientProblem, leading: tuple[int, ...]) -> Iterator[DweightCandidate]:
    yield from _leading(leading)
    if problem.forward.hidden_size < 2:
        return
    for name, words, mean in (
        ("sum", "the sum over all rows and columns", False),
        ("mean", "the mean over the columns of what it should be", True),
    ):
        sentence = f"every element of dweight is one number, {words}"
        yield DweightCandidate(f"dweight_is_one_{name}", _AXES, sentence, partial(_one_number, mean=mean))
    if problem.forward.n_rows == problem.forward.hidden_size:
        sentence = "dweight is summed over hidden_size, not over the rows"
        yield DweightCandidate("dweight_over_columns", _AXES, sentence, _over_columns)


def _leading(leading: tuple[int, ...]) -> Iterator[DweightCandidate]:
    """Not all of the leading dimensions are summed over: one index of one of them stands for all."""
    if len(leading) < 2:
        return
    for dim, length in enumerate(leading):
        if length < 2:
            continue
        for name, at in (("first", 0), ("last", length - 1)):
            yield DweightCandidate(
                f"dweight_{name}_of_dimension_{dim}",
                _AXES,
                f"dweight is summed over the {name} index of dimension {dim} of x alone",
                partial(_one_index, leading=leading, dim=dim, at=at),
            )


def _one_index(r: Reading, leading: tuple[int, ...], dim: int, at: int) -> Iterator[Sum]:
    rows = torch.arange(r.columns.n_rows, device=r.columns.dy.device).reshape(leading)
    kept = rows.select(dim, at).reshape(-1)
    yield r.summed(r.x_hat[kept], r.columns.dy[kept], r.statistic.relative[kept])


def _one_number(r: Reading, mean: bool) -> Iterator[Sum]:
    whole = r.whole()
    share = 1.0 / len(whole.centre) if mean else 1.0
    scale = whole.scale.sum()
    # One sum over all of it: its error is that of the columns' sums and of adding them.
    found = Sum(
        whole.centre.sum(), whole.low.sum() - scale * 2.0**-20, whole.high.sum() + scale * 2.0**-20, scale
    )
    once = found.times(share)
    wide = (len(r.columns.index),)
    yield Sum(
        once.centre.expand(wide), once.low.expand(wide), once.high.expand(wide), once.scale.expand(wide)
    )


def _over_columns(r: Reading) -> Iterator[Sum]:
    s = Setting(Rows(r.columns.problem, r.columns.index), r.norm_input, False)
    products = s.rows.dy * s.source.x_hat
    total, scale = products.sum(-1), products.abs().sum(-1)
    room = scale * (2.0**-20 + torch.as_tensor(s.source.relative).amax())
    yield Sum(total, total - room, total + room, scale)
