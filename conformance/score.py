"""The suite's own score: wrong kernels caught and named, right ones accused.

Every mutant and variant goes the way of any --impl: a worker, the bundled cases, the judge. The quick score
asks a mutant first the runs written for the requirement that it breaks, then the rest until something fails:
training runs where its fault is one of the backward, forward runs elsewhere. What variants are asked, and the
full score, are `conformance.matrix`. A right variant that fails, or is not warned for what it says of itself,
a mutant that does not fail, or too many misnamed ones fail the score.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance import load, mutants
from conformance.bench import Bench, this_machine
from conformance.model import GRADIENT_OF, Implementation, Requirement, Run, Verdict
from conformance.plan import selected
from conformance.reporting.conclude import ImplementationResult, conclude

AIMED = 14
"""Runs written for the broken requirement that the quick score asks of a mutant before it names the fault."""
NAMED = 0.9
"""Share of the mutants that must be named for the requirement that they break."""
NEUTRAL = 6
"""Small plain runs it asks as well: a fault that shows there is not one of layouts or sizes."""
BOTH = 2
"""Small plain forward runs of a mutant of the backward: its forward is right."""
LARGE = 1 << 20
"""Elements of x above which a training run is asked of a mutant only while nothing has failed."""
SPREAD, TRAINING_SPREAD = 60, 45
"""Forward and training runs that a variant is asked, from the cheapest to the dearest."""


@dataclass(frozen=True)
class Share:
    """The largest share of the allowed error that an output used, 1 at the edge, and the run that did."""

    output: str
    share: float
    run: str


@dataclass(frozen=True)
class Score:
    """The outcome of one mutant or variant. expected: the requirement a mutant breaks; "" for a variant."""

    spec: str
    expected: str
    asked: int
    failed: int
    named: tuple[str, ...]
    warned: int
    first: str  # the first failing run and what it says
    diagnosis: tuple[str, ...]
    seconds: float
    error: str = ""
    unwarned: tuple[str, ...] = ()  # what a variant should be warned for and was not
    shares: tuple[Share, ...] = ()  # of a variant, an output each

    @property
    def right(self) -> bool:
        """Caught and named where it is wrong, not accused where it is right."""
        if not self.expected:
            return not (self.failed or self.error or self.unwarned) and self.asked > 0
        return self.caught and bool(self.named) and self.named[0] == self.expected

    @property
    def caught(self) -> bool:
        return self.failed > 0

    @property
    def outcome(self) -> str:
        """In words."""
        if self.right:
            return "caught and named" if self.expected else "not accused"
        if not self.expected:
            return "NOT WARNED" if self.unwarned and not (self.failed or self.error) else "ACCUSED"
        return "caught, but named otherwise" if self.caught else "SURVIVED"


def score_mutant(spec: str, expected: str, device: str) -> Score:
    """Ask one mutant, `mutant:NAME`, the runs aimed at what it breaks, then the others until one fails."""
    started = time.perf_counter()
    requirements = load.requirements()
    bench = Bench(this_machine(device), "strict", requirements, timeout=60.0, paths=[str(Path.cwd())])
    try:
        loaded = bench.load(spec)
        if loaded.implementation is None:
            # What cannot be called is never certified.
            seconds = time.perf_counter() - started
            return Score(spec, expected, 0, 1, (expected,), 0, loaded.message, (), seconds)
        runs = selected(load.load([load.bundled()]), "default", loaded.implementation.calls)
        first, rest = ordered(runs, spec)
        verdicts = [bench.verdict(spec, run) for run in first]
        # Some faults show in no single run, only in how several compare.
        result = concluded(loaded.implementation, verdicts, requirements)
        caught = any(f.severity == "fail" for f in result.findings)
        for run in rest if not caught else ():
            if any(v.failed for v in verdicts):
                break
            verdicts.append(bench.verdict(spec, run))
        result = concluded(loaded.implementation, verdicts, requirements)
    finally:
        bench.close()
    bad = [v for v in verdicts if v.verdict in ("fail", "crash")]  # what broke in the suite caught nothing
    overall = [f for f in result.findings if f.severity == "fail"]
    shown = f"{bad[0].run}: {(bad[0].failed[0].message if bad[0].failed else bad[0].reason)}" if bad else ""
    return Score(
        spec, expected, len(verdicts), len(bad) + len(overall), result.named,
        sum(v.verdict == "warn" for v in verdicts), shown, result.diagnosis, time.perf_counter() - started,
    )  # fmt: skip


def largest_shares(verdicts: Iterable[Verdict]) -> tuple[Share, ...]:
    """For each output that a convention explains, y first, the most of the allowed error that a run used."""
    found: dict[str, Share] = {}
    for verdict in verdicts:
        for output in ("y", *GRADIENT_OF.values()):
            share = verdict.stats.get(f"{output}_share")
            if share is not None and (output not in found or share > found[output].share):
                found[output] = Share(output, share, verdict.run)
    return tuple(found[output] for output in ("y", *GRADIENT_OF.values()) if output in found)


def concluded(
    implementation: Implementation, verdicts: Sequence[Verdict], requirements: Mapping[str, Requirement]
) -> ImplementationResult:
    """The conclusion over what was asked, which is not all there is."""
    return conclude(
        implementation.name, verdicts, requirements, complete=False, profile="default", declared={},
        modes=list(implementation.calls),
    )  # fmt: skip


def ordered(runs: Sequence[Run], spec: str) -> tuple[list[Run], list[Run]]:
    """(the runs to ask a mutant first, the others), cheapest first within each kind."""
    forward, training = by_cost(runs)
    label = mutants.label(spec.partition(":")[2])
    asked, other = (training, forward) if label.backward else (forward, [])
    plain = [*_plain(asked)[:NEUTRAL], *_plain(other)[:BOTH]]
    hits = aimed([r for r in asked if not (r.trains and elements(r) > LARGE)], label.breaks)
    first = {r.id: r for r in (*hits, *plain)}
    rest = [r for r in (*asked, *other) if r.id not in first]
    return list(first.values()), sorted(rest, key=lambda r: label.breaks not in r.requirements)


def by_cost(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """(forward runs, training runs), each the cheapest first."""
    cheapest = sorted(runs, key=lambda r: (elements(r), r.id))
    return [r for r in cheapest if not r.trains], [r for r in cheapest if r.trains]


def elements(run: Run) -> int:
    """The elements of x: what a run costs, roughly."""
    return run.n_rows * run.hidden_size


def aimed(runs: Sequence[Run], requirement: str) -> list[Run]:
    """Those written for a requirement, spread over their costs."""
    found = [r for r in runs if requirement in r.requirements]
    return found[:: max(1, len(found) // AIMED)]


def _plain(runs: Sequence[Run]) -> list[Run]:
    """Those without anything special: what shows there is not a fault of layouts or sizes."""
    plain = [r for r in runs if not r.features and r.scenario == "once" and r.n_rows > 1]
    return [r for r in plain if r.hidden_size > 64 and (not r.trains or _all_gradients(r))]


def _all_gradients(run: Run) -> bool:
    return set(run.gradients) == set(run.dtypes) and (run.mode == "none" or len(run.upstream) == 2)


def good(scores: Sequence[Score]) -> bool:
    """Every mutant caught, no variant accused, and at least NAMED of the mutants named as labelled."""
    wrong = [s for s in scores if s.expected]
    if not scores or any(not (s.caught if s.expected else s.right) for s in scores):
        return False
    return sum(s.right for s in wrong) >= NAMED * len(wrong)


def table(scores: Sequence[Score]) -> str:
    """The scores as text: what went wrong first, then the variants' shares, then the counts."""
    lines = []
    for s in scores:
        if not s.right:
            expected, named = s.expected or "no failure", ", ".join(s.named[:3])
            expected = f"a warning of {', '.join(s.unwarned)}" if s.unwarned else expected
            lines.append(f"{s.spec}: {s.outcome}; expected {expected}, named {named}")
            lines.append(f"    {s.error or s.first}"[:400])
    wrong = [s for s in scores if s.expected]
    right = [s for s in scores if not s.expected]
    caught, labelled = sum(s.caught for s in wrong), sum(s.right for s in wrong)
    for s in right:
        lines += [f"{s.spec}: {e.output} used {e.share:.3f} of what is allowed, in {e.run}" for e in s.shares]
    lines += [
        f"{caught} of {len(wrong)} mutants caught, {labelled} named as labelled",
        f"{sum(not s.right for s in right)} of {len(right)} right variants accused",
    ]
    return "\n".join(lines)
