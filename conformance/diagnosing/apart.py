"""Which bundled case tells matching formulas apart, where a failing run does not.

Several wrong formulas can give one y: with a mean square of 1 no eps shows. They are then tried on the kind
of inputs that each bundled case is written for, as wide as the run's own, in float64; the first kind on which
they all differ is named, with its case. What a formula makes of these inputs is all that counts here: no
implementation is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

import torch
from torch import Tensor

from conformance.diagnosing import candidate as forward
from conformance.diagnosing import gradient_columns, gradient_rows
from conformance.diagnosing.candidates import all_candidates
from conformance.diagnosing.gradient_candidates import dweight_candidates, dx_candidates
from conformance.numerics.conventions import Problem
from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.rounding import nearest

MOST_TOLD = 4
"""Formulas that are compared; more that match say that the run is too small to say anything."""
_WIDEST = 1 << 14
_ROWS = 5
_SAME = 1e-4
"""Formulas whose largest difference is a smaller part of their largest value count as alike there."""

_DTYPES = {"x_dtype": "float32", "residual_dtype": "float32", "weight_dtype": "float32", "y_dtype": "float32"}
Named = forward.Candidate | gradient_rows.DxCandidate | gradient_columns.DweightCandidate


@dataclass(frozen=True)
class Kind:
    """The inputs that one case is about. x: made from noise (rows, columns) and eps; weight: from noise
    of one row; dtype: of every tensor; eps: how many times the run's own."""

    case: str  # of the forward
    training: str  # of the gradients
    words: str
    x: Callable[[Tensor, float], Tensor] = lambda noise, eps: noise
    weight: Callable[[Tensor], Tensor] = lambda noise: noise
    dtype: str = "float32"
    eps: float = 1.0


def _apart(noise: Tensor, eps: float) -> Tensor:
    return noise * torch.logspace(-1.0, 1.5, len(noise), dtype=noise.dtype)[:, None]


def _last(noise: Tensor, eps: float) -> Tensor:
    return torch.cat([0.5 * noise[:, :-1], noise[:, -1:] * 0.0 + 20.0], -1)


def _zeros(noise: Tensor) -> Tensor:
    return noise * (torch.arange(len(noise)) % 3 != 1)


KINDS = (
    Kind("core/norm", "gradients_neutral/norm", "ordinary rows in float32"),
    Kind("eps/near", "gradients_eps/near", "a mean square near eps", lambda noise, eps: noise * eps**0.5),
    Kind("eps/far_under", "gradients_eps/far_under", "a mean square far under eps",
         lambda noise, eps: noise * eps**0.5 * 0.03),
    Kind("eps/near", "gradients_eps/near", "another eps near the mean square",
         lambda noise, eps: noise * eps**0.5, eps=0.37),
    Kind("row_scales/span", "gradients_magnitudes/rows_apart", "rows of unlike scale", _apart),
    Kind("tails/last_column", "gradients_projection/last_column", "a large last column", _last),
    Kind("mean/common_offset", "gradients_projection/means", "rows whose mean is not 0",
         lambda noise, eps: noise + 3.0),
    Kind("weights/signed_with_zeros", "gradients_weights/zeros", "weights of either sign and 0",
         weight=_zeros),
    Kind("magnitudes/fp16_thousands", "gradients_magnitudes/fp16_thousands", "thousands in float16",
         lambda noise, eps: noise * 3000.0, dtype="float16"),
    Kind("magnitudes/fp16_small", "gradients_magnitudes/fp16_small", "small values in float16",
         lambda noise, eps: noise * 1e-3, dtype="float16"),
)  # fmt: skip
"""In the order in which they are tried."""


def forward_kind(kind: Kind, like: Problem) -> Problem:
    """Inputs of this kind, of the width, eps and tensors of the run's own."""
    noise, eps = torch.Generator().manual_seed(7), like.eps * kind.eps
    shape = (min(_ROWS, max(2, like.n_rows)) if like.n_rows > 1 else 1, like.hidden_size)

    def fresh(*size: int) -> Tensor:
        return torch.randn(*size, dtype=torch.float64, generator=noise)

    def stored(t: Tensor) -> Tensor:
        return nearest(t, kind.dtype)

    x = stored(kind.x(fresh(*shape), eps))
    residual = None if like.residual is None else stored(kind.x(0.7 * fresh(*shape), eps))
    weight = None if like.weight is None else stored(kind.weight(fresh(shape[1]) * 0.5 + 0.6))
    dtypes = dict.fromkeys(_DTYPES, kind.dtype)
    return Problem(x, residual, weight, eps, like.weight_offset, **dtypes)


def of_y(names: Sequence[str], like: Problem) -> str:
    """What tells the formulas of y of these names apart, in words; "" where there is nothing to tell."""

    def values(kind: Kind) -> dict[str, Tensor]:
        problem = forward_kind(kind, like)
        found = _chosen(all_candidates(problem), names)
        rows = forward.Rows(problem, torch.zeros_like(problem.x), torch.arange(problem.n_rows))
        return _computed(found, lambda c: _y(c, rows))

    return _told(names, like, values, lambda kind: kind.case)


def of_dx(names: Sequence[str], like: GradientProblem) -> str:
    """The same for formulas of dx and dresidual."""

    def values(kind: Kind) -> dict[str, Tensor]:
        problem = _training(kind, like)
        found = _chosen(dx_candidates(problem), names)
        rows = gradient_rows.Rows(problem, torch.arange(problem.n_rows))
        setting = next(iter(rows.settings()))
        return _computed(found, lambda c: _dx(c, setting))

    return _told(names, like.forward, values, lambda kind: kind.training)


def of_dweight(names: Sequence[str], like: GradientProblem) -> str:
    """The same for formulas of dweight."""

    def values(kind: Kind) -> dict[str, Tensor]:
        problem = _training(kind, like)
        found = _chosen(dweight_candidates(problem, (problem.n_rows,)), names)
        columns = gradient_columns.Columns(problem, torch.arange(problem.hidden_size))
        reading = next(iter(columns.readings()))
        return _computed(found, lambda c: _dweight(c, reading))

    return _told(names, like.forward, values, lambda kind: kind.training)


def _training(kind: Kind, like: GradientProblem) -> GradientProblem:
    problem = forward_kind(kind, like.forward)
    noise = torch.Generator().manual_seed(8)

    def fresh() -> Tensor:
        return nearest(torch.randn(problem.x.shape, dtype=torch.float64, generator=noise), kind.dtype)

    dy = None if like.dy is None else fresh() + 0.25 * problem.x.sign()
    added = None if like.dresidual_out is None else fresh()
    return replace(
        like, forward=problem, dy=dy, dresidual_out=added, dx_dtype=kind.dtype, dresidual_dtype=kind.dtype,
        dweight_dtype=kind.dtype,
    )  # fmt: skip


def _chosen(found: Iterable[Named], names: Sequence[str]) -> list[Named]:
    return [c for c in found if c.name in names]


def _computed(found: list[Named], compute: Callable[[Named], Tensor | None]) -> dict[str, Tensor]:
    values = {c.name: compute(c) for c in found}
    return {name: value for name, value in values.items() if value is not None}


def _y(candidate: Named, rows: forward.Rows) -> Tensor | None:
    assert isinstance(candidate, forward.Candidate)
    for parts in candidate.build(rows):
        value = parts.numerator * parts.rrms
        value = value if parts.weight is None else value * parts.weight
        value = value if parts.added is None else value + parts.added
        if candidate.last is not None:
            value = candidate.last(value, rows.all_rows.y_dtype).to(torch.float64)
        return value if parts.known is None else value.where(parts.known, torch.nan)
    return None


def _dx(candidate: Named, setting: gradient_rows.Setting) -> Tensor | None:
    assert isinstance(candidate, gradient_rows.DxCandidate)
    for form in candidate.build(setting):
        value = form.centre
        if candidate.last is not None:
            value = candidate.last(value, setting.rows.problem.dx_dtype).to(torch.float64)
        return value if form.known is None else value.where(form.known, torch.nan)
    return None


def _dweight(candidate: Named, reading: gradient_columns.Reading) -> Tensor | None:
    assert isinstance(candidate, gradient_columns.DweightCandidate)
    found = next(iter(islice(candidate.build(reading), 1)), None)
    if found is None:
        return None
    return found.centre if found.known is None else found.centre.where(found.known, torch.nan)


def _told(
    names: Sequence[str],
    like: Problem,
    values: Callable[[Kind], dict[str, Tensor]],
    case: Callable[[Kind], str],
) -> str:
    """The sentence: the first kind on which most of the formulas differ, or that none is known."""
    names = list(dict.fromkeys(names))[:MOST_TOLD]
    if len(names) < 2:
        return ""
    pairs = list(combinations(names, 2))
    listed = f"{', '.join(names[:-1])} and {names[-1]} cannot be told apart here"
    best, most = None, 0
    for kind in KINDS if like.hidden_size <= _WIDEST else ():
        found = values(kind)
        differ = sum(a in found and b in found and _differ(found[a], found[b]) for a, b in pairs)
        if differ > most:
            best, most = kind, differ
        if differ == len(pairs):
            break
    if best is None:
        return f"{listed}; other widths and more rows may tell them apart"
    does = "does" if most == len(pairs) else f"does for {most} of {len(pairs)} pairs"
    return f"{listed}; the case {case(best)}, with {best.words}, {does}"


def _differ(a: Tensor, b: Tensor) -> bool:
    """Whether two formulas give values that no rounding to fp32 explains."""
    if a.shape != b.shape:
        return True
    if bool((a.isinf() != b.isinf()).any()):
        return True
    both = a.isfinite() & b.isfinite()
    size = torch.maximum(a.abs(), b.abs()).where(both, 0.0).max()
    return bool(((a - b).abs().where(both, 0.0) > _SAME * size).any())
