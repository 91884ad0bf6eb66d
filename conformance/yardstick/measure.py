"""Put mutants and variants to other suites' rules, in workers as everywhere, and count.

A mutant is asked, the cheapest run first, until the rule objects; a variant is asked everything. A forward
mutant is asked all of a suite's runs; a mutant of the backward, whose forward is right, only where the suite
asks for gradients.
"""

from __future__ import annotations

import ast
import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from conformance import load, mutants, variants
from conformance.bench import Bench, this_machine
from conformance.errors import ConformanceError
from conformance.model import Implementation, Run
from conformance.run import Observation
from conformance.yardstick.judging import References, judged
from conformance.yardstick.rules import Suite
from conformance.yardstick.suites import chosen, questions

TIMEOUT = 120.0


@dataclass(frozen=True)
class Answer:
    """What one suite's rule says of one implementation. asked: runs made; objection: the first, or ""."""

    asked: int
    objection: str = ""


@dataclass(frozen=True)
class Measured:
    """One implementation under all suites that ask it something. breaks: a mutant's requirement, or ""."""

    spec: str
    breaks: str
    backward: bool
    answers: Mapping[str, Answer] = field(default_factory=dict)  # suite -> answer; absent: not asked
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        """Whether it is a mutant."""
        return bool(self.breaks)

    def objected(self, suite: str) -> bool:
        """Whether that suite's rule objects to it."""
        return suite in self.answers and bool(self.answers[suite].objection)


class Observer(Bench):
    """A bench that hands out observations, before this suite's own checks look at them."""

    def observe(self, spec: str, implementation: Implementation, run: Run) -> Observation:
        """Put one run to an implementation that was loaded."""
        return self._execute(spec, implementation, run)


def measure(
    names: Iterable[str] = (),
    suites: Sequence[str] = (),
    *,
    elements: int | None = None,
    jobs: int = 2,
    told: Callable[[str], None] = lambda line: None,
) -> list[Measured]:
    """Measure the mutants and variants named (`mutant:NAME`), or all, on the CPU in `jobs` processes.

    elements: as for `conformance.yardstick.suites.questions`. told: gets a line of progress after each.
    Raises ConformanceError for an unknown name or suite, and where this suite itself fails.
    """
    asked = tuple(suite.name for suite in chosen(suites))
    known = [f"mutant:{n}" for n in mutants.names() if mutants.label(n).needs != "gpu"]
    known += [f"variant:{n}" for n in variants.names()]
    specs = list(names) or known
    for spec in specs:
        if spec not in known:
            raise ConformanceError(
                f"{spec!r} is neither a mutant nor a variant for the CPU",
                "Write mutant:NAME or variant:NAME.",
            )
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = [pool.submit(measure_one, spec, asked, elements) for spec in specs]
        found = []
        for job in as_completed(pending):
            try:
                found.append(job.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            last = found[-1]
            said = [f"{s} {'objects' if a.objection else 'accepts'}" for s, a in last.answers.items()]
            told(f"{len(found)}/{len(specs)} {last.spec}: {', '.join(said)} ({last.seconds:.0f} s)")
    return sorted(found, key=lambda m: m.spec)


def measure_one(spec: str, suites: Sequence[str], elements: int | None) -> Measured:
    """One mutant or variant under the suites named, in workers of its own."""
    started = time.perf_counter()
    kind, _, name = spec.partition(":")
    label = mutants.label(name) if kind == "mutant" else None
    breaks, backward = (label.breaks, label.backward) if label else ("", False)
    bench = Observer(
        this_machine("cpu"), "strict", load.requirements(), timeout=TIMEOUT, paths=[str(Path.cwd())]
    )
    answers = {}
    try:
        loaded = bench.load(spec)
        for suite in chosen(suites):
            if loaded.implementation is None:  # any test fails where the first call does
                if not backward or suite.trains:
                    answers[suite.name] = Answer(0, f"{loaded.error}: {loaded.message}")
                continue
            runs = questions(suite, loaded.implementation, bench.machine, elements)
            runs = [run for run in runs if run.trains or not backward]
            answer = _answer(bench, spec, loaded.implementation, suite, runs, until_one=label is not None)
            if answer.asked:
                answers[suite.name] = answer
    finally:
        bench.close()
    return Measured(spec, breaks, backward, answers, time.perf_counter() - started)


def _answer(
    bench: Observer,
    spec: str,
    implementation: Implementation,
    suite: Suite,
    runs: Sequence[Run],
    until_one: bool,
) -> Answer:
    references = _references(suite.name)
    may_refuse = spec.startswith("variant:") and refuses(spec.removeprefix("variant:"))
    asked, objection = 0, ""
    for run in runs:
        outcome = judged(bench.observe(spec, implementation, run), suite.rules[run.case], references)
        if outcome.kind == "not run" or (outcome.kind == "raised" and may_refuse):
            continue
        asked += 1
        if outcome.kind != "close" and not objection:
            objection = f"{run.id}: {outcome.why}"
            if until_one:
                break
    return Answer(asked, objection)


_KEPT: dict[str, References] = {}


def _references(suite: str) -> References:
    """The references of this process: the same for all implementations."""
    return _KEPT.setdefault(suite, References())


def refuses(name: str) -> bool:
    """Whether a variant says that it refuses some dtype or layout: that is its right, and no error of it."""
    tree = ast.parse((variants.FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REFUSES":
            return bool(ast.literal_eval(node.value))
    return False
