"""Makes kills.jsonl: puts the mutants to the suite, each until it is caught and named. Needs torch.

Two for each requirement are asked in the order of the quick score, first what was written for it;
kept are the first runs in which something is found, and what else it takes to name the fault as it was named.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from conformance import load, mutants, variants
from conformance.loading.value_readers import close_to
from conformance.model import Requirement, Run, Verdict
from conformance.traceability.kills import FILE, WARNED, BadRecord, Kill, outcome, parse, reduced, write
from conformance.traceability.links import bundled_runs

EACH = 2
"""Mutants, or variants that are warned, which are recorded for each requirement that has so many."""

FOUND = 2
"""Runs with a finding that are kept of each, though one may do: a naming by consensus wants company."""


def recordable() -> dict[str, str]:
    """What a CPU can show: every mutant with what it breaks, every variant that is warned with what it is
    warned for; by name."""
    labels = [mutants.label(name) for name in mutants.names()]
    found = {f"mutant:{label.name}": label.breaks for label in labels if label.needs == "cpu"}
    return found | {f"variant:{n}": variants.warns(n)[0] for n in variants.names() if variants.warns(n)}


def out_of_date(kills: Mapping[str, Kill], known: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(what is to be recorded, recorded ones that survived, are gone, or have another label now); both are
    empty if the record is complete.

    A requirement wants EACH of its mutants, those that are recorded already or else the first by name.
    """
    gone = sorted(s for s, kill in kills.items() if known.get(s) != kill.breaks or not kill.outcome)
    by_requirement: dict[str, list[str]] = defaultdict(list)
    for spec, breaks in known.items():
        by_requirement[breaks].append(spec)
    missing: list[str] = []
    for specs in by_requirement.values():
        order = sorted(specs, key=lambda spec: (spec not in kills or spec in gone, spec))
        missing += [spec for spec in order[:EACH] if spec not in kills or spec in gone]
    return sorted(missing), gone


def record(
    names: Iterable[str] = (),
    *,
    again: bool = False,
    jobs: int = 2,
    path: Path = FILE,
    told: Callable[[str], None] = lambda line: None,
) -> dict[str, Kill]:
    """Bring the record up to date, and write it after each implementation.

    names: only these (`mutant:NAME`), else what is missing, survived or is not named as labelled.
    again: all that is recorded, too.

    Raises:
        BadRecord: a name is not among those that are recorded.
    """
    runs, known = bundled_runs(), recordable()
    kills = _readable(runs, path)
    missing, gone = out_of_date(kills, known)
    names = list(names)
    unknown = [name for name in names if name not in known]
    if unknown:
        told_why = "is no mutant that a CPU can show, and no variant that is warned"
        raise BadRecord(f"{unknown[0]!r} {told_why}", close_to(unknown[0], known))
    kills = {spec: kill for spec, kill in kills.items() if spec not in gone}
    rules = load.requirements()
    misnamed = [s for s, kill in kills.items() if kill.outcome != _as_labelled(s, kill.breaks, rules)]
    todo = sorted({*kills, *missing}) if again else names or sorted({*missing, *misnamed})
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = [pool.submit(record_one, spec, known[spec]) for spec in todo]
        for job in as_completed(pending):
            kill = job.result()
            kills[kill.spec] = kill
            write(kills, path)
            told(f"{len(kills)} recorded, {kill.spec}: {kill.outcome or 'SURVIVED'}")
    write(kills, path)
    return kills


def _readable(runs: Mapping[str, Run], path: Path) -> dict[str, Kill]:
    """The record as far as it can still be read: lines about runs that are gone are made again."""
    kills: dict[str, Kill] = {}
    for text in path.read_text("utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            kill = parse(text, runs)
            kills[kill.spec] = kill
    return kills


def record_one(spec: str, breaks: str) -> Kill:
    """Ask one until it is named for what it breaks, or what the quick score asks is over."""
    from conformance.bench import Bench, this_machine
    from conformance.matrix.quick import of_the_day
    from conformance.plan import selected
    from conformance.score import ordered

    requirements = load.requirements()
    bench = Bench(this_machine("cpu"), "strict", requirements, timeout=60.0, paths=[str(Path.cwd())])
    try:
        implementation = bench.load(spec).implementation
        if implementation is None:
            return Kill(spec, breaks, "", ())
        by_id = bundled_runs()
        asked = selected(load.load([load.bundled()]), "default", implementation.calls)
        if not spec.startswith("variant:"):
            first, rest = ordered(asked, spec)
        else:  # it is to be warned, which the spread of the score need not show
            aimed = sorted(
                (run for run in asked if breaks in run.requirements),
                key=lambda r: (r.n_rows * r.hidden_size, r.id),
            )
            first = list({run.id: run for run in (*aimed, *of_the_day(asked, spec, 0))}.values())
            rest = []
        return _asked(spec, breaks, first, rest, lambda run: bench.verdict(spec, run), by_id, requirements)
    finally:
        bench.close()


def _asked(
    spec: str,
    breaks: str,
    first: Sequence[Run],
    rest: Sequence[Run],
    ask: Callable[[Run], Verdict],
    by_id: Mapping[str, Run],
    requirements: Mapping[str, Requirement],
) -> Kill:
    wanted = _as_labelled(spec, breaks, requirements)
    verdicts: list[Verdict] = []
    for run in (*first, *rest):
        named = outcome(verdicts, requirements)
        if len(verdicts) >= len(first) and named:
            break
        if named == wanted and len(_found(verdicts)) >= FOUND:
            break
        verdicts.append(reduced(spec, ask(run), by_id))
    named = outcome(verdicts, requirements)
    kept = _fewest(verdicts, lambda left: outcome(left, requirements) == named)
    return Kill(spec, breaks, named, tuple(kept))


def _as_labelled(spec: str, breaks: str, requirements: Mapping[str, Requirement]) -> str:
    """The outcome that a label promises: a variant is right, so it is warned, and a SHOULD only warns."""
    warns = spec.startswith("variant:") or requirements[breaks].level == "SHOULD"
    return WARNED + breaks if warns else breaks


def _found(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [v for v in verdicts if v.findings or v.verdict == "crash"]


def _fewest(verdicts: Sequence[Verdict], same: Callable[[Sequence[Verdict]], bool]) -> list[Verdict]:
    """The first with findings if they give the same name, else what is left when no more can be spared."""
    few = _found(verdicts)[:FOUND]
    if same(few):
        return few
    left = list(verdicts)
    for verdict in reversed(verdicts):
        without = [v for v in left if v is not verdict]
        if same(without):
            left = without
    return left
