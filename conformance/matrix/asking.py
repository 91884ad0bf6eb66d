"""Puts one implementation to its runs, in a process of its own, the way of any --impl. Imports torch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance import load, variants
from conformance.bench import Bench, this_machine
from conformance.certification import matches
from conformance.matrix.lines import KILLS, Block, Closing, RunLine
from conformance.matrix.names import source
from conformance.model import SHORT_DTYPE, Implementation, Requirement, Run, Verdict
from conformance.plan import forward_only, selected
from conformance.reporting.conclude import ImplementationResult
from conformance.reporting.naming import name_failures
from conformance.score import concluded

PROFILE = "default"
"""The profile that is asked: it alone has to kill every mutant."""
TIMEOUT = 60.0
"""Seconds after which a call counts as one that hangs."""


@dataclass(frozen=True)
class Asked:
    """What came of it. implementation: None where it could not be loaded, for the reason `error`."""

    implementation: Implementation | None
    error: str
    verdicts: tuple[Verdict, ...]
    result: ImplementationResult | None
    seconds: float

    @property
    def warned(self) -> set[str]:
        """The requirements that are warned of, in a run or over several."""
        found = {f.requirement for v in self.verdicts for f in v.findings if f.severity == "warn"}
        if self.result is not None:
            found |= {f.requirement for f in self.result.findings if f.severity == "warn"}
        return found


def ask(spec: str, device: str, choose: Callable[[Sequence[Run]], Sequence[Run]], threads: int = 0) -> Asked:
    """Ask one implementation what `choose` takes of the runs of the default profile that it claims."""
    started = time.perf_counter()
    requirements = load.requirements()
    here = [str(Path.cwd())]
    bench = Bench(this_machine(device), "strict", requirements, timeout=TIMEOUT, paths=here, threads=threads)
    try:
        loaded = bench.load(spec)
        found = loaded.implementation
        if found is None:
            return Asked(None, loaded.error or "error", (), None, time.perf_counter() - started)
        runs = choose(selected(load.load([load.bundled()]), PROFILE, found.calls))
        verdicts = tuple(bench.verdict(spec, run) for run in runs)
    finally:
        bench.close()
    result = concluded(found, verdicts, requirements)
    return Asked(found, "", verdicts, result, time.perf_counter() - started)


def ask_all(spec: str, expected: str, device: str, only: Sequence[str], threads: int) -> Block:
    """One block of the matrix: all runs, or those that match `only`."""
    made_of = source(spec)  # before it is imported
    asked = ask(spec, device, lambda runs: [r for r in runs if matches(r.id, only)], threads)
    if asked.implementation is None or asked.result is None:
        named = (expected,) if expected else ()  # what cannot be called is never certified
        closing = Closing(
            spec, expected, named, {}, error=asked.error, source=made_of, seconds=round(asked.seconds, 2)
        )
        return Block(closing, ())
    requirements = load.requirements()
    calls = asked.implementation.calls
    closing = Closing(
        spec, expected, asked.result.named, dict(sorted(Counter(v.verdict for v in asked.verdicts).items())),
        overall=tuple((f.check, f.requirement) for f in asked.result.findings if f.severity == "fail"),
        unwarned=unwarned(spec, asked), modes=tuple(calls),
        trains=tuple(mode for mode, call in calls.items() if not forward_only(call)), source=made_of,
        seconds=round(asked.seconds, 2),
    )  # fmt: skip
    return Block(closing, tuple(run_line(spec, verdict, requirements) for verdict in asked.verdicts))


def unwarned(spec: str, asked: Asked) -> tuple[str, ...]:
    """What a variant says that it should be warned for, and was not."""
    kind, _, name = spec.partition(":")
    expected = variants.warns(name) if kind == "variant" else ()
    return tuple(w for w in expected if w not in asked.warned)


def run_line(spec: str, verdict: Verdict, requirements: Mapping[str, Requirement]) -> RunLine:
    """What the matrix keeps of a verdict."""
    named = name_failures([verdict], requirements).named if verdict.verdict in KILLS else ()
    failed = tuple(dict.fromkeys((f.check, f.requirement) for f in verdict.failed))
    dtype = verdict.dtypes.get("x", "")
    return RunLine(
        spec, verdict.run, SHORT_DTYPE.get(dtype, dtype), verdict.verdict, named[0] if named else "",
        failed, round(verdict.seconds, 3),
    )  # fmt: skip
