"""Faults of the weight in dx: forgotten, applied twice, in one of the two terms or in both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting
from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.rounding import nearest

ORDER = 160

_WEIGHT = "DX-WEIGHT"


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    stored, offset = problem.forward.weight, problem.forward.weight_offset
    if problem.dy is None or stored is None:
        return
    changed: dict[str, tuple[str, Callable[[Tensor], Tensor | None]]] = {
        "dx_without_weight": ("dx is computed without the weight", lambda w: None),
        "dx_weight_twice": ("the weight multiplies dy twice in both terms of dx", lambda w: w * w),
        "dx_weight_absolute": ("the sign of the weight is lost in dx", torch.abs),
        "dx_weight_reversed": ("dx reads the weight from its end", lambda w: w.flip(-1)),
        "dx_weight_shifted": ("dx reads the weight one element too far", lambda w: w.roll(-1)),
        "dx_weight_first_only": ("dx uses the first weight in every column", lambda w: w[:1].expand_as(w)),
    }
    if offset:
        changed["dx_offset_missing"] = (
            f"dx is computed without the weight_offset {offset:g}",
            lambda w: w - offset,
        )
        changed["dx_offset_twice"] = (
            f"dx adds the weight_offset {offset:g} to the weight twice",
            lambda w: w + offset,
        )
    else:
        changed["dx_offset_added"] = (
            "dx adds 1 to the weight, though no weight_offset was asked for",
            lambda w: w + 1.0,
        )
    for name, words, round_again in (
        ("dx_weight_moves", "", False),
        ("dx_weight_moves_round", ", and starts again at its end", True),
    ):
        if problem.forward.hidden_size == 1:
            continue  # the next element is none
        sentence = f"dx reads the weight one element further for every row{words}"
        yield DxCandidate(name, _WEIGHT, sentence, partial(_moving, round_again=round_again))
    for dtype in sorted({"float16", "bfloat16"} - {problem.forward.weight_dtype}):
        changed[f"dx_weight_in_{dtype}"] = (
            f"dx uses the weight rounded to {dtype}",
            partial(nearest, dtype=dtype),
        )
    for name, (sentence, change) in changed.items():
        yield DxCandidate(name, _WEIGHT, sentence, partial(_everywhere, change=change))
    parts: dict[str, tuple[str, Callable[[Setting], Iterator[Form]]]] = {
        "dx_weight_twice_in_projection": (
            "the second term of dx, that along x_hat, is multiplied by the weight twice",
            _twice_in_projection,
        ),
        "dx_weight_missing_in_projection": (
            "the second term of dx, that along x_hat, lacks the weight",
            lambda s: iter([s.jacobian(projected=s.rounded(s.rows.dy))]),
        ),
        "dx_weight_missing_in_first": (
            "the first term of dx, rrms * dy, lacks the weight",
            lambda s: iter([s.jacobian(s.rounded(s.rows.dy), projected=s.a)]),
        ),
        "dx_weight_twice_in_first": (
            "the first term of dx is multiplied by the weight twice",
            lambda s: iter([s.jacobian(s.weighted(s.a), projected=s.a)]),
        ),
    }
    for name, (sentence, build) in parts.items():
        yield DxCandidate(name, _WEIGHT, sentence, build)


def _everywhere(s: Setting, change: Callable[[Tensor], Tensor | None]) -> Iterator[Form]:
    assert s.rows.weight is not None
    weight = change(s.rows.weight)
    yield s.jacobian(s.rounded(s.rows.dy if weight is None else s.rows.dy * weight))


def _moving(s: Setting, round_again: bool) -> Iterator[Form]:
    weight, size = s.rows.weight, s.rows.hidden_size
    assert weight is not None
    at = s.rows.index[:, None] + torch.arange(size, device=weight.device)
    moved = weight[at % size] if round_again else weight[at.clamp_max(size - 1)].where(at < size, 0.0)
    yield s.jacobian(s.rounded(s.rows.dy * moved))


def _twice_in_projection(s: Setting) -> Iterator[Form]:
    """Under the mean, on what the mean multiplies, or on both."""
    weight = s.rows.weight
    assert weight is not None
    plain, inside = s.jacobian(), s.jacobian(projected=s.weighted(s.a))
    yield inside
    for form in (plain, inside):
        yield replace(form, second=form.second * weight, second_scale=form.second_scale * weight.abs())
