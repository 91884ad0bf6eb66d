"""How well failures are named, measured on the second implementations of the mutants' faults.

Each goes the way of any --impl, through a worker and the bundled cases: half of what the quick score asks of
the mutant, and the rest until a few runs fail. What the report then names is compared with the mutant's label
and with the sentence that states the fault.
"""

from __future__ import annotations

import multiprocessing
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from conformance import load, mutants, mutants_again, score
from conformance.bench import Bench, this_machine
from conformance.model import Verdict
from conformance.plan import selected

SHARE = 0.85
"""Share of the faults that must be among the first three that are named."""
FIRST = 3
FEWEST = 3
"""Failing runs below which more is asked: of one alone many formulas are an explanation."""
STRIDE = 2
"""Every so many of the runs that the quick score asks first."""


@dataclass(frozen=True)
class Named:
    """What the report says of one. named: requirements, the first names the failure; sentences: how.

    alone: the formulas that the whole report states, where the true one is not among them. alone_in_runs:
    single runs that match formulas of other requirements only. stated: whether a sentence states the fault,
    None where no known formula is it.
    """

    number: int
    mutant: str
    breaks: str
    named: tuple[str, ...]
    sentences: tuple[str, ...]
    stated: bool | None
    alone: tuple[str, ...]
    alone_in_runs: tuple[str, ...]
    asked: int
    failed: int
    seconds: float
    error: str = ""

    @property
    def among_first(self) -> bool:
        """Whether the broken requirement is among the first that are named."""
        return self.breaks in self.named[:FIRST]


def measure_one(number: int, device: str) -> Named:
    """Put one second implementation to the cases and read the report."""
    started = time.perf_counter()
    again = mutants_again.entries()[number]
    breaks = mutants.label(again.mutant).breaks
    requirements = load.requirements()
    with tempfile.TemporaryDirectory() as folder:
        spec = mutants_again.write(number, Path(folder))
        paths = [folder, str(Path.cwd())]
        bench = Bench(this_machine(device), "strict", requirements, timeout=60.0, paths=paths)
        try:
            loaded = bench.load(spec)
            if loaded.implementation is None:
                return Named(number, again.mutant, breaks, (), (), None, (), (), 0, 0,
                             time.perf_counter() - started, loaded.message)  # fmt: skip
            runs = selected(load.load([load.bundled()]), "default", loaded.implementation.calls)
            first, rest = score.ordered(runs, f"mutant:{again.mutant}")
            verdicts = [bench.verdict(spec, run) for run in first[::STRIDE]]
            for run in (*first[1::STRIDE], *rest):
                if sum(bool(v.failed) for v in verdicts) >= FEWEST:
                    break
                verdicts.append(bench.verdict(spec, run))
            result = score.concluded(loaded.implementation, verdicts, requirements)
        finally:
            bench.close()
    broken = [v.reason for v in verdicts if v.verdict == "broken"]
    return Named(
        number, again.mutant, breaks, result.named, result.diagnosis,
        _stated(again.says, result.diagnosis), _alone(again.says, result.diagnosis, verdicts, breaks),
        _alone_in_runs(verdicts, breaks), len(verdicts), sum(bool(v.failed) for v in verdicts),
        time.perf_counter() - started, broken[0] if broken else "",
    )  # fmt: skip


def _stated(says: str, sentences: Sequence[str]) -> bool | None:
    return any(re.search(says, s) for s in sentences) if says else None


def _alone(says: str, sentences: Sequence[str], verdicts: Sequence[Verdict], breaks: str) -> tuple[str, ...]:
    """Formulas that the report states, where the true one is not among them."""
    known = {c[2].rstrip(". "): c[1] for v in verdicts for f in v.failed for c in f.candidates}
    found = {text: known[text] for s in sentences for text in known if s.startswith(text)}
    right = any(re.search(says, text) for text in found) if says else breaks in found.values()
    return () if right else tuple(f"{requirement}: {text}" for text, requirement in found.items())


def _alone_in_runs(verdicts: Sequence[Verdict], breaks: str) -> tuple[str, ...]:
    return tuple(
        f"{v.run}: {f.candidates[0][1]}: {f.candidates[0][2]}"
        for v in verdicts
        for f in v.failed
        if f.candidates and breaks not in {c[1] for c in f.candidates}
    )


def measure(
    names: list[str],
    *,
    device: str = "auto",
    jobs: int = 2,
    told: Callable[[str], None] = lambda line: None,
) -> list[Named]:
    """Measure those whose mutant is named, or all, in `jobs` processes. Raises ConformanceError for an
    unknown name."""
    chosen = mutants_again.numbers(names)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        pending = [pool.submit(measure_one, number, device) for number in chosen]
        found: list[Named] = []
        for job in as_completed(pending):
            found.append(job.result())
            last = found[-1]
            place = "named first" if last.named[:1] == (last.breaks,) else f"NOT FIRST of {last.named[:4]}"
            place += ", WRONG FORMULA ALONE" if last.alone else ""
            place += ", not stated" if last.stated is False else ""
            told(
                f"{len(found)}/{len(chosen)} {last.mutant}: {place}, {last.asked} runs, {last.seconds:.0f} s"
            )
    return sorted(found, key=lambda n: n.number)


def good(found: Sequence[Named]) -> bool:
    """Enough among the first three, no wrong formula alone, and nothing that could not be measured."""
    if not found or any(n.error or n.alone for n in found):
        return False
    return sum(n.among_first for n in found) >= SHARE * len(found)


def table(found: Sequence[Named]) -> str:
    """The outcome as text: what is not right first, then the counts."""
    lines = []
    for n in found:
        if n.error or n.alone or n.named[:1] != (n.breaks,) or n.stated is False:
            place = "among the first three" if n.among_first else "NOT AMONG THE FIRST THREE"
            place = "first" if n.named[:1] == (n.breaks,) else place
            lines.append(f"{n.number:03d} {n.mutant}: {n.breaks} is {place}; named {', '.join(n.named[:4])}")
            lines += [f"    WRONG FORMULA ALONE: {text}" for text in n.alone]
            lines += [f"    {text[:220]}" for text in ([n.error] if n.error else n.sentences[:3])]
    known = [n for n in found if n.stated is not None]
    runs = sum(len(n.alone_in_runs) for n in found)
    lines += [
        f"{len(found)} second implementations of {len({n.mutant for n in found})} faults",
        f"{sum(n.named[:1] == (n.breaks,) for n in found)} named first, "
        f"{sum(n.among_first for n in found)} among the first three",
        f"{sum(bool(n.stated) for n in known)} of {len(known)} known formulas are stated in words",
        f"{sum(bool(n.alone) for n in found)} reports state wrong formulas alone; "
        f"{runs} of {sum(n.failed for n in found)} failing runs match such alone",
    ]
    return "\n".join(lines)
