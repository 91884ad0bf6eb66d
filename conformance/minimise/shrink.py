"""The loop: every step in turn, until none finds anything smaller, or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from conformance.loading.combinations import impossible
from conformance.minimise import fills, simpler, sizes
from conformance.minimise.told import in_short
from conformance.model import Requirement, Run, Verdict
from conformance.reporting.naming import name_failures

STEPS = (*simpler.STEPS[:2], *sizes.STEPS, *simpler.STEPS[2:], *fills.STEPS)
"""What makes the most of a run goes first: what the later steps ask is then cheap."""


class _TimeUp(Exception):  # noqa: N818 - it is no error
    pass


def named(verdict: Verdict, requirements: Mapping[str, Requirement]) -> str:
    """The requirement that one failing run is named for, or "" where it does not fail.

    It is the first of what `conformance.reporting.naming` gives for this run alone: the one of lowest rank
    among its findings, a wrong value counted for the formula that it matches.
    """
    found = name_failures([verdict], requirements).named
    return found[0] if found else ""


@dataclass
class Shrinking:
    """What came of it. failing: every run that failed with its verdict, from the original to the smallest.

    tried: how many runs were asked after the original. finished: whether nothing was left to try.
    """

    requirement: str
    failing: list[tuple[Run, Verdict]]
    tried: int = 0
    seconds: float = 0.0
    finished: bool = False


def shrink(
    original: Run,
    verdict: Verdict,
    ask: Callable[[Run], Verdict],
    requirements: Mapping[str, Requirement],
    *,
    limit: float,
    told: Callable[[str], None] = lambda line: None,
) -> Shrinking:
    """Look for the smallest run that fails as `original` does.

    Args:
        original: a failing run.
        verdict: its verdict, just given.
        ask: puts a run to the implementation.
        requirements: id -> Requirement, for the naming.
        limit: seconds after which nothing smaller is looked for; what was found until then is given.
        told: gets a line for each smaller run that failed.
    """
    original = replace(original, core=False, flags=())  # words about a bundled case, true of no smaller one
    state = Shrinking(named(verdict, requirements), [(original, verdict)])
    known: dict[str, Verdict] = {}
    started = time.perf_counter()

    def fails(run: Run, limited: bool = True) -> bool:
        if impossible(run) is not None or not fills.fair(run):
            return False
        question = repr(simpler.question(run))
        if question not in known:
            if limited and time.perf_counter() - started >= limit:
                raise _TimeUp
            state.tried += 1
            known[question] = ask(run)
        if named(known[question], requirements) != state.requirement:
            return False
        if run != state.failing[-1][0]:
            state.failing.append((run, known[question]))
            told(f"{state.tried} runs tried; fails: {in_short(run)}")
        return True

    try:
        _until_nothing_shrinks(original, fails)
        state.finished = True
    except _TimeUp:
        pass
    smallest = state.failing[-1][0]
    if requirements[state.requirement].needs != "structural":
        any(fails(run, limited=False) for run in simpler.asked_for(state.requirement, smallest))
    state.seconds = time.perf_counter() - started
    return state


def _until_nothing_shrinks(run: Run, fails: simpler.Fails) -> None:
    before = None
    while run != before:
        before = run
        for step in STEPS:
            run = step(run, fails)
