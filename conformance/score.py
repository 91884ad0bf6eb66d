"""The suite's own score: wrong kernels caught and named, right ones accused.

Every mutant and variant goes the way of any --impl: a worker, the bundled cases, the judge. The quick score
asks a mutant first the runs written for the requirement that it breaks, then the rest until something fails:
training runs where its fault is one of the backward, forward runs elsewhere. A variant is asked a spread of
both. The full score asks everything. A right variant that fails, or is not warned for what it says of itself,
a mutant that does not fail, or too many misnamed ones fail the score.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from conformance import load, mutants, variants
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


def score_one(spec: str, expected: str, device: str, full: bool) -> Score:
    """Run one implementation through the bundled cases."""
    started = time.perf_counter()
    requirements = load.requirements()
    bench = Bench(this_machine(device), "strict", requirements, timeout=60.0, paths=[str(Path.cwd())])
    try:
        loaded = bench.load(spec)
        if loaded.implementation is None:
            failed = int(bool(expected))  # what cannot be called is never certified
            return Score(spec, expected, 0, failed, (expected,) * failed, 0, loaded.message, (),
                         time.perf_counter() - started, "" if expected else loaded.message)  # fmt: skip
        runs = selected(load.load([load.bundled()]), "default", loaded.implementation.calls)
        verdicts: list[Verdict] = []
        first, rest = _ordered(runs, spec)
        for run in first if not full else runs:
            verdicts.append(bench.verdict(spec, run))
        # Some faults show in no single run, only in how several compare.
        result = _concluded(loaded.implementation, verdicts, requirements)
        caught = any(f.severity == "fail" for f in result.findings)
        for run in rest if not full and expected and not caught else ():
            if any(v.failed for v in verdicts):
                break
            verdicts.append(bench.verdict(spec, run))
        result = _concluded(loaded.implementation, verdicts, requirements)
    finally:
        bench.close()
    bad = [v for v in verdicts if v.verdict in ("fail", "crash", "broken")]
    overall = [f for f in result.findings if f.severity == "fail"]
    warned = {f.requirement for v in verdicts for f in v.findings if f.severity == "warn"}
    warned |= {f.requirement for f in result.findings if f.severity == "warn"}
    shown = f"{bad[0].run}: {(bad[0].failed[0].message if bad[0].failed else bad[0].reason)}" if bad else ""
    return Score(
        spec, expected, len(verdicts), len(bad) + len(overall), result.named,
        sum(v.verdict == "warn" for v in verdicts), shown, result.diagnosis, time.perf_counter() - started,
        unwarned=tuple(w for w in _warns(spec) if w not in warned),
        shares=() if expected else largest_shares(verdicts),
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


def _concluded(
    implementation: Implementation, verdicts: Sequence[Verdict], requirements: Mapping[str, Requirement]
) -> ImplementationResult:
    return conclude(
        implementation.name, verdicts, requirements, complete=False, profile="default", declared={},
        modes=list(implementation.calls),
    )  # fmt: skip


def _warns(spec: str) -> tuple[str, ...]:
    """What a right variant says that it should be warned for."""
    kind, _, name = spec.partition(":")
    return variants.warns(name) if kind == "variant" else ()


def _ordered(runs: Sequence[Run], spec: str) -> tuple[list[Run], list[Run]]:
    """(the runs to ask first, the others), cheapest first within each kind."""
    by_cost = sorted(runs, key=lambda r: (_elements(r), r.id))
    forward, training = ([r for r in by_cost if r.trains is trains] for trains in (False, True))
    kind, _, name = spec.partition(":")
    if kind == "variant":
        aimed = [r for w in _warns(spec) for r in _aimed(by_cost, w)]
        spread = [*_spread(forward, SPREAD), *_spread(training, TRAINING_SPREAD), *aimed]
        return list({r.id: r for r in spread}.values()), []
    label = mutants.label(name)
    asked, other = (training, forward) if label.backward else (forward, [])
    plain = [*_plain(asked)[:NEUTRAL], *_plain(other)[:BOTH]]
    aimed = _aimed([r for r in asked if not (r.trains and _elements(r) > LARGE)], label.breaks)
    first = {r.id: r for r in (*aimed, *plain)}
    rest = [r for r in (*asked, *other) if r.id not in first]
    return list(first.values()), sorted(rest, key=lambda r: label.breaks not in r.requirements)


def _elements(run: Run) -> int:
    return run.n_rows * run.hidden_size


def _aimed(runs: Sequence[Run], requirement: str) -> list[Run]:
    """Those written for a requirement, spread over their costs."""
    aimed = [r for r in runs if requirement in r.requirements]
    return aimed[:: max(1, len(aimed) // AIMED)]


def _plain(runs: Sequence[Run]) -> list[Run]:
    """Those without anything special: what shows there is not a fault of layouts or sizes."""
    plain = [r for r in runs if not r.features and r.scenario == "once" and r.n_rows > 1]
    return [r for r in plain if r.hidden_size > 64 and (not r.trains or _all_gradients(r))]


def _all_gradients(run: Run) -> bool:
    return set(run.gradients) == set(run.dtypes) and (run.mode == "none" or len(run.upstream) == 2)


def _spread(runs: Sequence[Run], number: int) -> list[Run]:
    return list(runs)[:: max(1, len(runs) // number)]


def score(
    names: Iterable[str] = (),
    *,
    device: str = "auto",
    full: bool = False,
    jobs: int = 2,
    told: Callable[[str], None] = lambda line: None,
) -> list[Score]:
    """Score the mutants and variants named (`mutant:NAME`), or all; in `jobs` processes.

    told: gets a line of progress after each. Raises ValueError for an unknown name.
    """
    wanted = {f"mutant:{n}": mutants.label(n).breaks for n in mutants.names()}
    wanted.update({f"variant:{n}": "" for n in variants.names()})
    names = list(names)
    unknown = [n for n in names if n not in wanted]
    if unknown:
        hint = "write mutant:NAME or variant:NAME"
        raise ValueError(f"{unknown[0]!r} is neither a mutant nor a variant; {hint}")
    gpu = this_machine(device).device != "cpu"
    shown = [n for n in names or wanted if gpu or not _needs_gpu(n)]
    chosen = {n: wanted[n] for n in shown}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        pending = [pool.submit(score_one, spec, breaks, device, full) for spec, breaks in chosen.items()]
        scores = []
        for job in as_completed(pending):
            scores.append(job.result())
            last = scores[-1]
            what = f"{last.outcome}, {last.asked} runs, {last.seconds:.0f} s"
            told(f"{len(scores)}/{len(chosen)} {last.spec}: {what}")
    return sorted(scores, key=lambda s: s.spec)


def _needs_gpu(spec: str) -> bool:
    kind, _, name = spec.partition(":")
    return kind == "mutant" and mutants.label(name).needs == "gpu"


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
