"""Faults of the gradient of residual_out: lost, doubled, added before the norm's Jacobian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from torch import Tensor

from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting
from conformance.numerics.gradient_conventions import GradientProblem

ORDER = 150

_AFTER, _ADDED, _SAME = "DRESIDUAL-AFTER", "DRESIDUAL-ADDED", "DRESIDUAL-SAME"


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    if problem.dresidual_out is None:
        return
    if problem.dy is not None:
        yield DxCandidate(
            "dresidual_out_before_jacobian",
            _AFTER,
            "the gradient of residual_out is added to dy before the norm's Jacobian, not after it",
            _before,
        )
        yield DxCandidate(
            "dresidual_out_before_and_after",
            _AFTER,
            "the gradient of residual_out is added before the norm's Jacobian and again after it",
            partial(_before, again=True),
        )
    changed: dict[str, tuple[str, Callable[[Tensor, Setting], Tensor | None]]] = {
        "dresidual_out_lost": ("the gradient of residual_out is lost", lambda d, s: None),
        "dresidual_out_twice": ("the gradient of residual_out is added twice", lambda d, s: 2.0 * d),
        "dresidual_out_subtracted": (
            "the gradient of residual_out is subtracted, not added",
            lambda d, s: -d,
        ),
        "dresidual_out_halved": ("half of the gradient of residual_out is added", lambda d, s: 0.5 * d),
        "dresidual_out_weighted": (
            "the gradient of residual_out is multiplied by the weight",
            lambda d, s: d if s.rows.weight is None else d * s.rows.weight,
        ),
        "dresidual_out_scaled": (
            "the gradient of residual_out is multiplied by rrms",
            lambda d, s: d * s.source.rrms,
        ),
        "dresidual_out_of_first_row": (
            "the gradient of residual_out is that of the first row, in every row",
            lambda d, s: s.rows.problem.dresidual_out[:1].expand_as(d),  # type: ignore[index]
        ),
    }
    for name, (sentence, change) in changed.items():
        yield DxCandidate(name, _ADDED, sentence, partial(_changed, change=change))
    if problem.dy is not None:
        sentence = "it is the gradient of residual_out alone, without what comes through the norm"
        yield DxCandidate("dresidual_out_alone", _SAME, sentence, _alone)


def _before(s: Setting, again: bool = False) -> Iterator[Form]:
    d = s.rows.added
    assert d is not None
    for a in (s.weighted(s.rows.dy + d), s.rounded(s.a + d)):
        form = s.jacobian(a)
        yield form if again else replace(form, added=None)


def _changed(s: Setting, change: Callable[[Tensor, Setting], Tensor | None]) -> Iterator[Form]:
    assert s.rows.added is not None
    yield replace(s.jacobian(), added=change(s.rows.added, s))


def _alone(s: Setting) -> Iterator[Form]:
    form = s.jacobian()
    yield replace(form, first=0.0 * form.first, second=0.0 * form.second, second_scale=0.0 * form.second)
