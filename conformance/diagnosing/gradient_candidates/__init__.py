"""Known wrong formulas of the gradients, one file a kind, found by scanning.

A module here has `dx_candidates(problem)`, which yields `gradient_rows.DxCandidate`s for dx and dresidual,
or `dweight_candidates(problem, leading)`, which yields `gradient_columns.DweightCandidate`s, or both.
Adding a kind is adding a file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from conformance.diagnosing.gradient_columns import DweightCandidate
from conformance.diagnosing.gradient_rows import DxCandidate
from conformance.numerics.gradient_conventions import GradientProblem


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    """Every candidate for dx or dresidual that says anything about this problem, in the order of ranks."""
    return _all("dx_candidates", problem)


def dweight_candidates(problem: GradientProblem, leading: tuple[int, ...]) -> Iterator[DweightCandidate]:
    """The same for dweight. leading: the leading dimensions of x, which are flattened in the problem."""
    if problem.dy is None or problem.forward.weight is None:
        return iter(())
    return _all("dweight_candidates", problem, leading)


def _all(function: str, *about: Any) -> Iterator[Any]:
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    for module in sorted(modules, key=lambda m: (m.ORDER, m.__name__)):
        if hasattr(module, function):
            yield from getattr(module, function)(*about)
