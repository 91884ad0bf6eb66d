"""Putting runs to implementations: while shrinking, and once more in a fresh process at the end.

A run that fails only because of the calls before it would pass in the new file, and a run that a right
implementation fails too shows nothing. Both are seen here, and the next larger run is taken instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.bench import Bench, this_machine
from conformance.errors import ConformanceError
from conformance.minimise.asked import Asked
from conformance.minimise.shrink import named
from conformance.model import Requirement, Run, Verdict

RIGHT = "variant:llama_autograd"
"""A right implementation with gradients, in plain operations of torch."""


class CannotAskError(ConformanceError):
    """The implementation cannot be called here, or not in this fusion mode."""


@dataclass(frozen=True)
class How:
    """How runs are put: the device, seconds for one run, and the requirements that name what fails."""

    device: str
    timeout: float
    requirements: Mapping[str, Requirement]


@contextmanager
def asking(asked: Asked, how: How) -> Iterator[Callable[[Run], Verdict]]:
    """A function that puts runs to the implementation, in a worker of its own; it is ended afterwards.

    Raises:
        CannotAskError: the implementation does not load here, or has no call of the run's fusion mode.
        ConformanceError: the device is missing.
    """
    with _bench(asked, how) as bench:
        loaded = bench.load(asked.spec)
        if loaded.implementation is None:
            raise CannotAskError(f"--impl={asked.spec}: {loaded.message}", loaded.hint)
        if asked.run.mode not in loaded.implementation.calls:
            modes = ", ".join(loaded.implementation.calls)
            raise CannotAskError(
                f"--impl={asked.spec} has no call of mode {asked.run.mode}, only of {modes}",
                "Give the implementation that failed with --impl=MODULE:ATTRIBUTE.",
            )
        yield lambda run: bench.verdict(asked.spec, run)


def confirmed(
    asked: Asked, how: How, requirement: str, failing: Sequence[tuple[Run, Verdict]]
) -> tuple[Run, Verdict, list[str]] | None:
    """Ask the smallest run again in a fresh process, then the next larger ones, until one holds.

    Args:
        requirement: what it should fail.
        failing: the runs that failed, from the original to the smallest.

    Returns:
        The run, its verdict, and why smaller ones were not taken; None where not even the original holds.
    """
    reasons: list[str] = []
    for run, _ in reversed(failing):
        with asking(asked, how) as ask:
            verdict = ask(run)
        if named(verdict, how.requirements) != requirement:
            reasons.append("fails only after other calls in the same process")
        elif run is not failing[0][0] and _right_fails(asked, how, run):
            reasons.append("a right implementation fails it too")
        else:
            return run, verdict, list(dict.fromkeys(reasons))
    return None


def _right_fails(asked: Asked, how: How, run: Run) -> bool:
    """Whether a right implementation fails the same values; layouts and arguments are left out.

    Where one argument is wrong there is no right value, so nothing is asked.
    """
    if run.fault is not None:
        return False
    mode = "none" if run.mode == "none" else "residual"
    plain = replace(run, mode=mode, layouts={}, out=False, weight_offset=None, scenario="once")
    with _bench(replace(asked, weight_offset=None), how) as bench:
        loaded = bench.load(RIGHT)
        return loaded.implementation is not None and bench.verdict(RIGHT, plain).verdict in ("fail", "crash")


@contextmanager
def _bench(asked: Asked, how: How) -> Iterator[Bench]:
    try:
        machine = this_machine(how.device)
    except ValueError as error:
        raise ConformanceError(str(error)) from error
    paths = [str(Path.cwd()), *(p for p in sys.path if p)]
    bench = Bench(
        machine, asked.grade, how.requirements,
        timeout=how.timeout, paths=paths, weight_offset=asked.weight_offset,
    )  # fmt: skip
    try:
        yield bench
    finally:
        bench.close()
