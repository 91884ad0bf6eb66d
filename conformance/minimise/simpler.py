"""Fewer features: one scenario, one gradient, no layouts, one dtype, no arguments that may be left out.

The fusion mode, the dtype of x and whether there is a weight stay: they choose the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from conformance.loading.gradients import BACKWARD_SCENARIOS, FORWARD_PROFILES
from conformance.model import UPSTREAM_OF, Run

Fails = Callable[[Run], bool]
"""Whether a run fails as the original does; False for one that cannot or may not be asked."""

Step = Callable[[Run, Fails], Run]
"""Takes a failing run and gives a smaller failing one, or the same where it finds none."""

EPS = 1e-6
"""The eps of a case that gives none."""

_SMALL = 1 << 24
"""Elements of x up to which a run needs no memory worth declaring."""


def first_that_fails(candidates: Callable[[Run], Iterator[Run]]) -> Step:
    """A step that takes the first failing candidate, as often as there is one."""

    def step(run: Run, fails: Fails) -> Run:
        while True:
            smaller = next((c for c in map(tidied, candidates(run)) if fails(c)), None)
            if smaller is None:
                return run
            run = smaller

    return step


def tidied(run: Run) -> Run:
    """The run without what belongs to tensors that it has no more, and without needs that are gone."""
    arriving = [UPSTREAM_OF[output] for output in run.upstream]
    present = {*run.dtypes, *arriving}
    held = {*present, *(["out"] if run.out else [])}
    layouts = {t: layout for t, layout in run.layouts.items() if t in held and layout != "contiguous"}
    needs = run.needs
    if "int64_stride" not in layouts.values() and run.n_rows * run.hidden_size <= _SMALL:
        needs = tuple(need for need in needs if not need.startswith("memory:"))
    fills = {t: fill for t, fill in run.fills.items() if t in present}
    return replace(run, layouts=layouts, fills=fills, needs=needs)


def question(run: Run) -> tuple[Any, ...]:
    """All that is asked by a run, and nothing of where it stands: equal questions, equal answers."""
    return (
        run.mode, run.shape, sorted(run.dtypes.items()), run.eps,
        sorted((tensor, repr(fill)) for tensor, fill in run.fills.items()), sorted(run.layouts.items()),
        run.requirements, run.scenario, run.weight_offset, run.out, run.fault, run.needs, run.gradients,
        run.upstream,
    )  # fmt: skip


def _gradients(run: Run) -> Iterator[Run]:
    """A forward run; else one gradient, of one output's."""
    if not run.trains:
        return
    scenario = "once" if run.scenario in BACKWARD_SCENARIOS else run.scenario
    yield replace(run, gradients=(), upstream=(), scenario=scenario, profiles=FORWARD_PROFILES)
    if len(run.gradients) > 1:
        yield from (replace(run, gradients=(one,)) for one in run.gradients)
    if len(run.upstream) > 1:
        yield from (replace(run, upstream=(one,)) for one in run.upstream)
    if len(run.gradients) > 2:
        yield from (replace(run, gradients=tuple(g for g in run.gradients if g != o)) for o in run.gradients)


def _scenario(run: Run) -> Iterator[Run]:
    if run.scenario not in ("once", "refuse"):
        yield replace(run, scenario="once")


def _layouts(run: Run) -> Iterator[Run]:
    """All tensors contiguous; else one more of them."""
    if run.layouts:
        yield replace(run, layouts={})
    if len(run.layouts) > 1:
        for tensor in run.layouts:
            yield replace(run, layouts={t: layout for t, layout in run.layouts.items() if t != tensor})


def _rank(run: Run) -> Iterator[Run]:
    if len(run.shape) != 2:
        yield replace(run, shape=(run.n_rows, run.hidden_size))


def _dtypes(run: Run) -> Iterator[Run]:
    """One dtype for all tensors; else that of x for one more of them."""
    different = [t for t, dtype in run.dtypes.items() if dtype != run.dtypes["x"]]
    if different:
        yield replace(run, dtypes=dict.fromkeys(run.dtypes, run.dtypes["x"]))
    if len(different) > 1:
        yield from (replace(run, dtypes={**run.dtypes, t: run.dtypes["x"]}) for t in different)


def _arguments(run: Run) -> Iterator[Run]:
    if run.out:
        yield replace(run, out=False)
    if run.weight_offset is not None:
        yield replace(run, weight_offset=None)
    if run.eps != EPS and not (run.fault or "").startswith("eps_"):
        yield replace(run, eps=EPS)


STEPS: tuple[Step, ...] = tuple(
    map(first_that_fails, (_gradients, _scenario, _layouts, _rank, _dtypes, _arguments))
)


def asked_for(requirement: str, run: Run) -> Iterator[Run]:
    """The run as one that asks for this requirement: alone, before the others, or after them.

    What a run asks decides how some findings are named, so this comes last and is tried like any step.
    """
    others = tuple(r for r in run.requirements if r != requirement)
    ways = ((requirement,), (requirement, *others), (*others, requirement))
    yield from (replace(run, requirements=way) for way in dict.fromkeys(ways))
