"""Faults of precision in dweight: summed in 16 bits, or passed through another dtype on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.gradient_columns import DweightCandidate, Reading, Sum
from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.intervals import U
from conformance.numerics.rounding import MANTISSA, nearest, ulp

ORDER = 169

_ACCUMULATION = "DWEIGHT-ACCUMULATION"
_SLOW_ROWS = 1 << 17  # for the row by row sum
_MOST_NOISE = 0.1
"""The largest part of its sum that a dweight may be off by and still be told from another formula."""


def dweight_candidates(problem: GradientProblem, leading: tuple[int, ...]) -> Iterator[DweightCandidate]:
    n, p = problem.forward.n_rows, problem.forward
    used = {p.x_dtype, problem.dweight_dtype, p.weight_dtype} | ({p.residual_dtype} if p.fused else set())
    for dtype in ("bfloat16", "float16"):
        if dtype == "float16" and dtype not in used and "bfloat16" in used:
            continue
        if dtype != problem.dweight_dtype:
            sentence = f"dweight passes through {dtype} before it is stored as {problem.dweight_dtype}"
            yield DweightCandidate(
                f"dweight_through_{dtype}", _ACCUMULATION, sentence, partial(_through, dtype=dtype)
            )
        if n < 2:
            continue
        orders: dict[str, tuple[str, Callable[[Tensor, str], Tensor]]] = {
            "halves": ("folding halves", _halves),
            "pairs": ("adding pairs", _pairs),
        }
        if n <= _SLOW_ROWS:
            orders["order"] = ("row after row", _in_order)
        for name, (words, order) in orders.items():
            yield DweightCandidate(
                f"dweight_summed_in_{dtype}_{name}",
                _ACCUMULATION,
                f"dweight is summed in {dtype} ({words})",
                partial(_summed, dtype=dtype, order=order),
            )
        for block in (2, 4, 8, 16, 32, 64, 128, 256):
            if block < n:
                yield DweightCandidate(
                    f"dweight_partials_in_{dtype}_{block}",
                    _ACCUMULATION,
                    f"the partial sums of {block} rows that dweight is summed from are kept in {dtype}",
                    partial(_partials, dtype=dtype, block=block),
                )
        noise = 1.5 * math.sqrt(n) * 2.0 ** -(MANTISSA[dtype] + 1)
        if dtype in {p.x_dtype, problem.dweight_dtype} and noise < _MOST_NOISE:
            yield DweightCandidate(
                f"dweight_noise_of_{dtype}",
                _ACCUMULATION,
                f"dweight is as inaccurate as a sum in {dtype} is",
                partial(_noise, share=noise),
                compound=True,
                noise=True,
            )


def _through(r: Reading, dtype: str) -> Iterator[Sum]:
    found = r.summed()
    yield replace(
        found,
        centre=nearest(found.centre, dtype),
        low=nearest(found.low, dtype),
        high=nearest(found.high, dtype),
    )


def _terms(r: Reading) -> Tensor:
    dtype = r.columns.problem.forward.x_dtype
    x_hat = nearest(r.x_hat, dtype) if r.rounds_x_hat else r.x_hat
    terms = r.columns.dy * x_hat
    return nearest(terms, dtype) if r.rounds_product else terms


def _summed(r: Reading, dtype: str, order: Callable[[Tensor, str], Tensor]) -> Iterator[Sum]:
    terms = _terms(r)
    yield _exactly(terms, order(terms, dtype), ulp(terms.cumsum(0).abs().amax(0), dtype))


def _partials(r: Reading, dtype: str, block: int) -> Iterator[Sum]:
    """Blocks of rows that follow each other, or every so many rows."""
    terms = _terms(r)
    missing = -len(terms) % block
    padded = torch.nn.functional.pad(terms, (0, 0, 0, missing))
    for blocks in (padded.unflatten(0, (-1, block)).sum(1), padded.unflatten(0, (block, -1)).sum(0)):
        yield _exactly(terms, nearest(blocks, dtype).sum(0), ulp(blocks, dtype).amax(0))


def _exactly(terms: Tensor, total: Tensor, place: Tensor) -> Sum:
    """A sum of which every rounding is known. One in thousands of terms that are good to fp32 may round the
    other way, and then moves its column's sum by some places; most columns it leaves alone."""
    n, scale = len(terms), terms.abs().sum(0)
    room = scale * (8.0 * math.sqrt(n) * U)
    stray = place * (3.0 + n / 2.0**13)
    return Sum(total, total - room, total + room, scale, None, stray, 0.75 * math.exp(-n / 2.0**14))


def _in_order(terms: Tensor, dtype: str) -> Tensor:
    total = torch.zeros_like(terms[0])
    for row in terms.unbind(0):
        total = nearest(total + row, dtype)
    return total


def _halves(terms: Tensor, dtype: str) -> Tensor:
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        rest = torch.nn.functional.pad(terms[half:], (0, 0, 0, 2 * half - len(terms)))
        terms = nearest(terms[:half] + rest, dtype)
    return terms[0]


def _pairs(terms: Tensor, dtype: str) -> Tensor:
    while len(terms) > 1:
        terms = torch.nn.functional.pad(terms, (0, 0, 0, len(terms) % 2))
        terms = nearest(terms[::2] + terms[1::2], dtype)
    return terms[0]


def _noise(r: Reading, share: float) -> Iterator[Sum]:
    terms = _terms(r)
    found = r.summed()
    yield found.widened(terms.cumsum(0).abs().amax(0) * share)
