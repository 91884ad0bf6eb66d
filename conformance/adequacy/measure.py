"""Puts every mutant to a user's runs, and to these runs with one thing changed where it passes them all.

A mutant is asked the user's runs, cheapest first, until one fails. One that passes them all is asked changed
runs: for each property that the runs lack, a few of them with this one thing changed. What fails now was
hidden by that property. Properties that other runs of the user have, but not these, come last.
"""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from conformance import load, mutants
from conformance.adequacy.properties import PROPERTIES
from conformance.adequacy.property import Property
from conformance.errors import ConformanceError
from conformance.model import Requirement, Run, Verdict

BASES = 3
"""Runs that are changed for one property, each of another mode or dtype of x."""

AIMED = 12
"""Bundled runs written for what a mutant breaks that are asked of one that no change shows."""

TIMEOUT = 60.0
"""Seconds for one call."""

LIMIT = 60.0
"""Seconds for the user's runs of one mutant, and again for the changed runs."""

TOGETHER = "several runs together"


@dataclass(frozen=True)
class Hiding:
    """One property whose change alone makes a mutant fail.

    partly: whether other runs that the mutant was asked have the property. run: the changed run that failed.
    """

    name: str
    partly: bool
    run: str


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant.

    Attributes:
        mutant: its name.
        state: seen, hidden, out of reach (these runs cannot be put to it), unfinished or broken.
        asked: how many of the user's runs it was asked.
        run: the run that failed, where it was seen.
        hidden_by: the properties that hide it, where it is hidden; () where no single change shows it.
        bundled: a bundled run that fails; asked only where no single change shows it.
        why: for out of reach, unfinished and broken.
        seconds: what it took.
    """

    mutant: str
    state: str
    asked: int = 0
    run: str = ""
    hidden_by: tuple[Hiding, ...] = ()
    bundled: str = ""
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Adequacy:
    """The answer: the outcomes of the mutants that were asked, by name; reason -> those that were not."""

    runs: tuple[Run, ...]
    outcomes: tuple[Outcome, ...]
    not_asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of_state(self, state: str) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.state == state)


class UnknownMutant(ConformanceError):  # noqa: N818  (like the others of conformance.errors)
    """A name that no mutant has."""


def measure(
    runs: Sequence[Run],
    names: Iterable[str] = (),
    *,
    jobs: int = 2,
    limit: float = LIMIT,
    thorough: bool = False,
    told: Callable[[str], None] = lambda line: None,
) -> Adequacy:
    """Put the mutants (all, or those named) to the runs, in `jobs` processes, on the CPU.

    limit: seconds for the runs of one mutant, and again for the changed ones. thorough: try every property
    with every survivor, also after one has shown it. told: gets a line of progress after each mutant.

    Raises:
        UnknownMutant: there is no mutant of a name.
    """
    names = list(names)
    unknown = [name for name in names if name not in mutants.names()]
    if unknown:
        raise UnknownMutant(f"there is no mutant {unknown[0]!r}", "`ls conformance/mutants` shows the names.")
    asked, not_asked = [], dict[str, tuple[str, ...]]()
    for name in names or mutants.names():
        reason = not_askable(mutants.label(name), runs)
        if reason:
            not_asked[reason] = (*not_asked.get(reason, ()), name)
        else:
            asked.append(name)
    outcomes = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = [pool.submit(measure_one, name, tuple(runs), limit, thorough) for name in asked]
        for job in as_completed(pending):
            outcomes.append(job.result())
            last = outcomes[-1]
            told(f"{len(outcomes)}/{len(asked)} {last.mutant}: {last.state}, {last.seconds:.1f} s")
    return Adequacy(tuple(runs), tuple(sorted(outcomes, key=lambda o: o.mutant)), not_asked)


def not_askable(label: mutants.Label, runs: Sequence[Run]) -> str:
    """Why none of these runs asks for what a mutant is wrong about, in words; "" where one does."""
    if label.needs == "gpu":
        return "they need a GPU"
    if label.backward and not any(run.trains for run in runs):
        return "their fault is one of the backward, and no case has `gradients`"
    if not runs_for(label, runs):
        half = "training run" if label.backward else "run"
        return f"no {half} has mode {' or '.join(label.modes)}"
    return ""


def runs_for(label: mutants.Label, runs: Sequence[Run]) -> list[Run]:
    """The runs that ask for what a mutant is wrong about: forward runs first, then the cheapest first."""
    own = [run for run in runs if run.mode in label.modes and (run.trains or not label.backward)]
    return sorted(own, key=lambda run: (run.trains, run.n_rows * run.hidden_size, run.id))


def measure_one(name: str, runs: tuple[Run, ...], limit: float, thorough: bool) -> Outcome:
    """The outcome of one mutant."""
    from conformance.adequacy.nursery import QuickBench
    from conformance.bench import this_machine

    started = time.perf_counter()
    label, requirements = mutants.label(name), load.requirements()
    asked = runs_for(label, runs)
    trains = any(run.trains for run in asked)
    bench = QuickBench(this_machine("cpu"), requirements, TIMEOUT, trains)
    spec = f"mutant:{name}"
    try:
        loaded = bench.load(spec)
        if loaded.implementation is None:
            return Outcome(name, "seen", 0, "loading it", why=loaded.message, seconds=_since(started))
        trial = Trial(label, asked, requirements, lambda run: bench.verdict(spec, run))
        return trial.outcome(limit, thorough, started)
    finally:
        bench.close()


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 2)


class Trial:
    """One mutant before the runs of a user; `ask` gives the verdict on one run."""

    def __init__(
        self,
        label: mutants.Label,
        runs: Sequence[Run],
        requirements: Mapping[str, Requirement],
        ask: Callable[[Run], Verdict],
    ) -> None:
        self._label, self._runs, self._requirements, self._ask = label, runs, requirements, ask
        self._verdicts: list[Verdict] = []
        self._computed: list[Run] = []

    def outcome(self, limit: float, thorough: bool, started: float) -> Outcome:
        """See `measure`; started: a time of perf_counter, for the seconds."""
        name, deadline = self._label.name, time.monotonic() + limit
        for run in self._runs:
            verdict = self._ask(run)
            self._verdicts.append(verdict)
            if verdict.verdict == "broken":
                return self._told("broken", started, why=verdict.reason)
            if verdict.verdict in ("fail", "crash"):
                return self._told("seen", started, run=run.id)
            if verdict.verdict in ("pass", "warn") and run.scenario != "refuse":
                self._computed.append(run)
            if time.monotonic() > deadline and run is not self._runs[-1]:
                left = len(self._runs) - len(self._verdicts)
                why = f"{left} runs were left after {limit:.0f} s; a larger --limit asks them"
                return self._told("unfinished", started, why=why)
        if self._together(self._verdicts):
            return self._told("seen", started, run=TOGETHER)
        if not self._computed:
            reasons = [v.reason for v in self._verdicts if v.reason]
            return self._told("out of reach", started, why=reasons[0] if reasons else "no run was computed")
        hidden_by = tuple(self._hidden_by(thorough, time.monotonic() + limit))
        bundled = "" if hidden_by else self._bundled(time.monotonic() + limit)
        return Outcome(
            name, "hidden", len(self._verdicts), "", hidden_by, bundled, "", _since(started)
        )  # fmt: skip

    def _told(self, state: str, started: float, run: str = "", why: str = "") -> Outcome:
        return Outcome(
            self._label.name, state, len(self._verdicts), run, why=why, seconds=_since(started)
        )  # fmt: skip

    # --- which property ---------------------------------------------------------------------------------

    def _hidden_by(self, thorough: bool, deadline: float) -> Iterator[Hiding]:
        """The properties whose change alone shows the mutant.

        First those that no run has and that aim at what it breaks, then the others that no run has, then
        those that some have. The next group is asked only where the one before shows nothing.
        """
        breaks = self._label.breaks
        blind = [p for p in ordered() if p.blind(self._runs)]
        partly = [p for p in ordered() if p not in blind and p.over_all is None]
        groups = [
            ([p for p in blind if p.aims_at(breaks)], False),
            ([p for p in blind if not p.aims_at(breaks)], False),
            ([p for p in partly if p.aims_at(breaks)], True),
            ([p for p in partly if not p.aims_at(breaks)], True),
        ]
        shown: set[str] = set()
        for group, some_have_it in groups:
            if shown and not thorough:
                return
            for one in group:
                if time.monotonic() > deadline:
                    return
                if shown.isdisjoint(one.beyond) and (run := self._shown_by(one)):
                    shown.add(one.name)
                    yield Hiding(one.name, some_have_it, run)

    def _shown_by(self, one: Property) -> str:
        """The first changed run that fails; "" where none does."""
        for base in bases([run for run in self._computed if one.lacks(run)]):
            for changed in one.changed(base):
                if self._fails(changed):
                    return changed.id
        return ""

    def _fails(self, run: Run) -> bool:
        verdict = self._ask(run)
        if verdict.verdict in ("fail", "crash"):
            return True
        # A refusal is judged beside what was computed.
        return verdict.verdict == "unsupported" and self._together([*self._verdicts, verdict])

    def _together(self, verdicts: Sequence[Verdict]) -> bool:
        """Whether something shows only in how several runs compare."""
        from conformance.reporting.conclude import conclude

        result = conclude(
            verdicts[0].implementation, verdicts, self._requirements, complete=False, profile="default",
            declared={}, modes=list(self._label.modes),
        )  # fmt: skip
        return any(f.severity == "fail" for f in result.findings)

    def _bundled(self, deadline: float) -> str:
        for run in bundled_for(self._label)[:AIMED]:
            if time.monotonic() > deadline:
                break
            if self._fails(run):
                return run.id
        return ""


def bases(runs: Sequence[Run]) -> list[Run]:
    """A few runs to change, each of another mode, half or dtype: ordinary ones first, then the cheapest."""
    found: dict[tuple[object, ...], Run] = {}
    for run in sorted(runs, key=lambda r: (_odd_one(r), r.n_rows * r.hidden_size, r.id)):
        found.setdefault((run.mode, run.trains, run.dtypes["x"]), run)
    return list(found.values())[:BASES]


def _odd_one(run: Run) -> int:
    """How much is unusual about a run already."""
    return 2 * (run.hidden_size < 8) + 2 * (run.n_rows < 2) + (run.scenario != "once") + bool(run.features)


def ordered() -> list[Property]:
    """All properties, each after those that it is beyond."""
    depth: dict[str, int] = {}
    waiting = list(PROPERTIES)
    while waiting:
        ready = [p for p in waiting if all(b in depth for b in p.beyond)]
        depth.update({p.name: 1 + max((depth[b] for b in p.beyond), default=0) for p in ready})
        waiting = [p for p in waiting if p.name not in depth]
    return sorted(PROPERTIES, key=lambda p: depth[p.name])


def bundled_for(label: mutants.Label) -> list[Run]:
    """The bundled runs written for what a mutant breaks, those written for it first of all in front."""
    own = [run for run in runs_for(label, _bundled_runs()) if label.breaks in run.requirements]
    return sorted(own, key=lambda run: (run.requirements[0] != label.breaks, run.n_rows * run.hidden_size))


@functools.cache
def _bundled_runs() -> tuple[Run, ...]:
    return tuple(run for case in load.load([load.bundled()]) for run in case.runs if not run.needs)
