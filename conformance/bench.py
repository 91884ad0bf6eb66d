"""The workbench of one pytest process: a worker per implementation, and the path from a run to its verdict.

    run → plan → execute → (twins of a refusal, contents of the memory outside) → judge → verdict

A worker that died is replaced before the next run. Only one implementation has a live worker at a time.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from conformance import run as stage
from conformance.judge import broken, judge, not_planned
from conformance.loaded import Loaded
from conformance.model import DTYPES, Implementation, NotPlanned, Requirement, Run, Verdict
from conformance.plan import Machine, plan, twins
from conformance.processes.crew import LOAD_TIMEOUT, Crew
from conformance.processes.isolate import WorkerDiedError
from conformance.processes.protocol import Arena
from conformance.surroundings import FINITE_WORD, nan_appears, outside_matters
from conformance.versions import unsupported


class Bench:
    """Runs questions against implementations. Close it when done."""

    def __init__(
        self,
        machine: Machine,
        grade: str,
        requirements: Mapping[str, Requirement],
        *,
        timeout: float,
        paths: Sequence[str],
        weight_offset: float | None = None,
        threads: int = 0,
    ) -> None:
        self.machine, self.grade, self.requirements = machine, grade, requirements
        self._timeout, self._weight_offset = timeout, weight_offset
        self._arena = Arena()
        # Judging is many small operations: a second thread slows them, severalfold where cores are shared.
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        self._crew = Crew(self._arena, machine.device, paths, threads)
        self._loaded: dict[str, Loaded] = {}
        self._twins: dict[str, Verdict] = {}

    # --- implementations -------------------------------------------------------------------------------

    def load(self, spec: str) -> Loaded:
        """Import an implementation in a worker and say how its call is read. Never raises for its faults."""
        self.load_all([spec])
        return self._loaded[spec]

    def load_all(self, specs: Sequence[str]) -> list[Loaded]:
        """`load` for several, side by side."""
        new = [spec for spec in specs if spec not in self._loaded]
        if len(new) == 1:  # it is likely to be called next: keep its process
            self._loaded[new[0]] = self._load(new[0], self._crew.hire)
            new = []
        with ThreadPoolExecutor(max_workers=4) as pool:
            self._loaded.update(zip(new, pool.map(self._load_alone, new), strict=True))
        return [self._loaded[spec] for spec in specs]

    def know(self, loaded: Loaded) -> None:
        """Take over what another process of the same certification found out."""
        self._loaded[loaded.spec] = loaded

    def _load_alone(self, spec: str) -> Loaded:
        return self._load(spec, lambda _, request: self._crew.ask_once(request, LOAD_TIMEOUT))

    def _load(self, spec: str, ask: Callable[[str, Mapping[str, object]], dict[str, Any]]) -> Loaded:
        for probe in (True, False):  # a probe that kills the process: go by name and order
            try:
                reply = ask(spec, self._load_request(spec, probe))
            except WorkerDiedError as death:
                failed = Loaded(spec, error=death.kind, message=f"{death.detail}; {death.output[-500:]}")
                continue
            return Loaded.from_reply(spec, probe, reply)
        return failed

    def _load_request(self, spec: str, probe: bool) -> dict[str, object]:
        """What makes a worker load `spec`; a later one is told what the first found out by many calls."""
        loaded = self._loaded.get(spec)
        implementation = None if loaded is None else loaded.implementation
        known = implementation and {m: c.differentiable for m, c in implementation.calls.items()}
        return {
            "op": "load", "spec": spec, "probe": probe, "weight_offset": self._weight_offset,
            "differentiable": known,
        }  # fmt: skip

    def close(self) -> None:
        """End the workers and give the shared memory back."""
        self._crew.close()
        self._arena.close()
        torch.set_num_threads(self._threads_before)

    # --- verdicts --------------------------------------------------------------------------------------

    def verdict(self, spec: str, run: Run) -> Verdict:
        """Put one run to one implementation and judge it. An error of the suite is verdict `broken`."""
        try:
            return self._verdict(spec, run)
        except Exception as error:
            self._crew.lose()
            place = traceback.extract_tb(error.__traceback__)[-1]
            told = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            known = self._loaded.get(spec)
            return broken(run, spec if known is None else known.name, told)

    def _verdict(self, spec: str, run: Run) -> Verdict:
        implementation = self.load(spec).implementation
        assert implementation is not None, "collect no runs for an implementation that did not load"
        started = time.perf_counter()
        planned = plan(run, implementation, self.machine)
        if isinstance(planned, NotPlanned):
            return not_planned(planned)
        seen = self._execute(spec, implementation, run)
        if _raised(seen):
            seen.twin, seen.twin_detail = self._ask_twins(spec, implementation, run)
        verdict = self._judge(seen, implementation)
        if any(f.severity == "fail" and (f.check == "values" or run.trains) for f in verdict.findings):
            seen.again = self._with_other_surroundings(spec, implementation, seen)
            if seen.again is not None:
                seen.outside_matters, seen.outside_changed = outside_matters(seen, seen.again)
                verdict = self._judge(seen, implementation)
        return replace(verdict, seconds=round(time.perf_counter() - started, 4))

    def _judge(self, seen: stage.Observation, implementation: Implementation) -> Verdict:
        return judge(seen, implementation.name, self.requirements, self.grade)

    def _execute(
        self, spec: str, implementation: Implementation, run: Run, filler: int | None = None
    ) -> stage.Observation:
        call = implementation.calls[run.mode]
        try:
            worker = self._crew.ready(spec, self._load_request(spec, self._loaded[spec].probe))
        except WorkerDiedError as death:
            return stage.Observation(run, call, death.kind, [], death.detail, death.output)
        seen = stage.execute(run, call, worker, self._arena, self.machine.device, self._timeout, filler)
        if seen.status in ("crash", "hang", "broken"):
            self._crew.lose()
        seen.import_drift = self.load(spec).drift
        return seen

    def _ask_twins(self, spec: str, implementation: Implementation, run: Run) -> tuple[str, str]:
        """(`pass` or "", in words): whether the same sizes and values are right in a neutral run."""
        told = []
        for twin in twins(run, DTYPES):
            asked = (twin.mode, twin.shape, twin.dtypes, twin.eps, twin.gradients, twin.upstream)
            key = repr((spec, *asked, sorted(twin.fills.items())))
            if key not in self._twins:
                self._twins[key] = self._judge(self._execute(spec, implementation, twin), implementation)
            outcome = self._twins[key].verdict
            if outcome in ("pass", "warn"):
                return "pass", f"the neutral run in {twin.dtypes['x']} passes"
            told.append(f"{twin.dtypes['x']} {outcome}")
        return "", "the same sizes and values in neutral runs: " + ", ".join(told)

    def _with_other_surroundings(
        self, spec: str, implementation: Implementation, seen: stage.Observation
    ) -> stage.Observation | None:
        """The run again with finite values in bands and gaps, where a result has a NaN that no input has."""
        if not nan_appears(seen):
            return None
        again = self._execute(spec, implementation, seen.run, FINITE_WORD)
        return again if again.status == "completed" and not _raised(again) else None


def _raised(seen: stage.Observation) -> bool:
    return seen.status == "completed" and any(s.record["status"] != "returned" for s in seen.steps)


def this_machine(wanted: str) -> Machine:
    """The device to run on: `auto` is the first GPU, else the CPU.

    Raises ValueError where it is missing, or where a package is too old.
    """
    problem = unsupported()
    if problem:
        raise ValueError(problem)
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return Machine("cpu", pages / 2**30 * 0.5)
    if not torch.cuda.is_available():
        raise ValueError("--rn-device=cuda, but torch sees no GPU here; use --rn-device=cpu")
    free, _ = torch.cuda.mem_get_info()
    return Machine("cuda", free / 2**30, torch.cuda.get_device_name())
