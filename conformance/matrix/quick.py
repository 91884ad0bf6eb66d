"""The quick score: each mutant until it fails, each variant on the runs of the day. Imports torch."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from conformance import variants
from conformance.bench import this_machine
from conformance.matrix.asking import ask, unwarned
from conformance.matrix.names import chosen, known, longest_first
from conformance.matrix.rotation import rotated
from conformance.model import Run
from conformance.score import SPREAD, TRAINING_SPREAD, Score, aimed, by_cost, largest_shares, score_mutant


def quick(
    names: Iterable[str] = (),
    *,
    rotation: int,
    device: str = "auto",
    jobs: int = 2,
    told: Callable[[str], None] = lambda line: None,
) -> list[Score]:
    """Score the mutants and variants named (`mutant:NAME`), or all; in `jobs` processes.

    rotation: which runs the variants are asked, see `rotation`. told: gets a line of progress after each.

    Raises:
        NoSuchImplementation: a name is neither a mutant's nor a variant's.
    """
    breaks = known()
    names = longest_first(chosen(names, this_machine(device).name))
    scores: list[Score] = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = [
            pool.submit(score_mutant, spec, breaks[spec], device)
            if breaks[spec]
            else pool.submit(score_variant, spec, device, rotation)
            for spec in names
        ]
        for job in as_completed(pending):
            last = job.result()
            scores.append(last)
            what = f"{last.outcome}, {last.asked} runs, {last.seconds:.0f} s"
            told(f"{len(scores)}/{len(names)} {last.spec}: {what}")
    return sorted(scores, key=lambda s: s.spec)


def score_variant(spec: str, device: str, rotation: int) -> Score:
    """Ask a right variant the runs of one rotation, and those written for its warnings."""
    asked = ask(spec, device, lambda runs: of_the_day(runs, spec, rotation))
    if asked.result is None:
        return Score(spec, "", 0, 0, (), 0, asked.error, (), asked.seconds, asked.error)
    bad = [v for v in asked.verdicts if v.verdict in ("fail", "crash", "broken")]
    overall = [f for f in asked.result.findings if f.severity == "fail"]
    first = f"{bad[0].run}: {bad[0].failed[0].message if bad[0].failed else bad[0].reason}" if bad else ""
    return Score(
        spec, "", len(asked.verdicts), len(bad) + len(overall), asked.result.named,
        sum(v.verdict == "warn" for v in asked.verdicts), first, asked.result.diagnosis, asked.seconds,
        unwarned=unwarned(spec, asked), shares=largest_shares(asked.verdicts),
    )  # fmt: skip


def of_the_day(runs: Sequence[Run], spec: str, rotation: int) -> list[Run]:
    """What a variant is asked in one rotation, cheapest first."""
    forward, training = by_cost(runs)
    warned = variants.warns(spec.partition(":")[2])
    spread = [
        *rotated(forward, SPREAD, rotation, spec),
        *rotated(training, TRAINING_SPREAD, rotation, spec),
        *(r for w in warned for r in aimed([*forward, *training], w)),
    ]
    return list({r.id: r for r in spread}.values())
