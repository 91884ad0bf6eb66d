"""Which conventions explain the gradients of a call: judged once, and kept for all the checks that ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from conformance.model import DTYPES, GRADIENT_OF
from conformance.numerics.gradients import (
    GradientExplanation,
    GradientProblem,
    explain_dweight,
    explain_dx,
)
from conformance.seen import View

_KEPT: WeakKeyDictionary[View, dict[str, GradientExplanation[Any] | None]] = WeakKeyDictionary()


def problem_of(view: View, role: str) -> GradientProblem:
    """The backward's question, with the dtype in which the gradient of `role` came: another one than it
    should have is told by the check of the form, and its numbers may be right all the same."""
    gradient, name = view.gradient(role), GRADIENT_OF[role]
    if gradient is None or gradient.dtype not in DTYPES:
        return view.gradient_problem
    if name == "dx":
        return replace(view.gradient_problem, dx_dtype=gradient.dtype)
    if name == "dresidual":
        return replace(view.gradient_problem, dresidual_dtype=gradient.dtype)
    return replace(view.gradient_problem, dweight_dtype=gradient.dtype)


def explained(view: View, role: str) -> GradientExplanation[Any] | None:
    """What explains the gradient of an input, by the input's name; None where there are no numbers to
    explain, because none came back or because none were asked for (0 rows of dx)."""
    kept = _KEPT.setdefault(view, {})
    if role not in kept:
        kept[role] = _explained(view, role)
    return kept[role]


def explained_before(view: View, role: str) -> GradientExplanation[Any] | None:
    """What `explained` gave, where some check has asked already; None elsewhere."""
    return _KEPT.get(view, {}).get(role)


def _explained(view: View, role: str) -> GradientExplanation[Any] | None:
    values = view.gradient_values(role)
    if values is None or not values.numel():
        return None
    problem = problem_of(view, role)
    if role == "weight":
        return explain_dweight(problem, values)
    return explain_dx(problem, values, which=GRADIENT_OF[role])
