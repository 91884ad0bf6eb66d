"""The suites that are re-implemented here, and what each asks of one implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from conformance import load
from conformance.errors import ConformanceError
from conformance.model import UPSTREAM_OF, Implementation, NotPlanned, Run
from conformance.plan import Machine, plan
from conformance.yardstick import flaggems, liger, vllm
from conformance.yardstick.rules import Suite

SUITES = {module.SUITE.name: module.SUITE for module in (vllm, liger, flaggems)}


def chosen(names: Sequence[str]) -> list[Suite]:
    """The suites named, all where none is. Raises ConformanceError for an unknown name."""
    for name in names:
        if name not in SUITES:
            raise ConformanceError(f"no suite is called {name!r}", f"Known: {', '.join(SUITES)}.")
    return [SUITES[name] for name in names or SUITES]


def inputs(suite: Suite) -> tuple[Run, ...]:
    """Everything that a suite asks, in the order of its file, whatever its size."""
    return _read(suite.cases)


@lru_cache(maxsize=len(SUITES))
def _read(file: str) -> tuple[Run, ...]:
    cases = load.load([Path(__file__).with_name(file)])
    return tuple(run for case in cases for run in case.runs)


def questions(
    suite: Suite, implementation: Implementation, machine: Machine, elements: int | None = None
) -> list[Run]:
    """The runs that a suite puts to an implementation, the cheapest first.

    elements: shapes of x above it are left out; None for the suite's own limit, 0 for none. Where the
    implementation cannot be asked for gradients, it is asked for the outputs of the same inputs.
    """
    limit = suite.elements if elements is None else elements
    asked: dict[str, Run] = {}
    for run in inputs(suite):
        if limit and run.n_rows * run.hidden_size > limit:
            continue
        for form in _forms(run):
            if form.mode not in implementation.calls:
                continue
            if not isinstance(plan(form, implementation, machine), NotPlanned):
                asked[form.id] = form
                if form.mode == run.mode:
                    break
    return sorted(asked.values(), key=lambda run: run.cost)


def _forms(run: Run) -> list[Run]:
    """A run; of a training run also its forward alone, and that in place where it is a fused one."""
    if not run.trains:
        return [run]
    fills = {role: fill for role, fill in run.fills.items() if role not in UPSTREAM_OF.values()}
    forward = replace(run, id=f"{run.id}~forward", gradients=(), upstream=(), fills=fills)
    forms = [run, forward]
    if run.mode == "residual":
        forms.insert(0, replace(forward, id=f"{run.id}~in_place", mode="residual_in_place"))
    return forms
