"""Known wrong formulas, one file a kind, found by scanning.

A module here has a function `candidates(problem)` that yields `conformance.diagnosing.candidate.Candidate`s,
the likeliest first. Adding a kind is adding a file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from conformance.diagnosing.candidate import Candidate
from conformance.numerics.conventions import Problem


def all_candidates(problem: Problem) -> Iterator[Candidate]:
    """Every candidate that says anything about this problem; modules in the order of their ORDER, the rank of
    what they break."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    for module in sorted(modules, key=lambda m: (m.ORDER, m.__name__)):
        yield from module.candidates(problem)
