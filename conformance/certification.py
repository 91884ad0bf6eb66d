"""One certification: what was asked for on the command line, the runs it stands for, and its result file.

The pytest plugin is glue around this. Under pytest-xdist every process has one; the workers give verdicts,
the controller collects them and concludes.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from conformance import __version__, load
from conformance.bench import Bench, this_machine
from conformance.environment import environment, package_of
from conformance.loaded import Loaded
from conformance.model import Case, Requirement, Run, Verdict
from conformance.plan import DEFAULT_PROFILE, Machine, selected
from conformance.report import Result, Writer, conclude_all, declared_convention
from conformance.reporting.conclude import CERTIFYING, ImplementationResult


@dataclass(frozen=True)
class Options:
    """The command line. case_paths: the user's own cases. partial: why it is not the whole profile, or ""."""

    specs: tuple[str, ...]
    profile: str = DEFAULT_PROFILE
    grade: str = "strict"
    device: str = "auto"
    timeout: float = 120.0
    only: tuple[str, ...] = ()
    case_paths: tuple[Path, ...] = ()
    bundled: bool = True
    weight_offset: float | None = None
    partial: str = ""
    threads: int = 0  # of each process where several share the machine's cores
    command: tuple[str, ...] = ()


class Certification:
    """Plans, asks, collects, concludes. Nothing is imported or started before it is needed."""

    def __init__(self, options: Options, out: Path) -> None:
        self.options, self.out = options, out
        self.verdicts: list[Verdict] = []
        self._writer: Writer | None = None
        self.results: tuple[ImplementationResult, ...] = ()

    @cached_property
    def cases(self) -> list[Case]:
        """All cases; raises BadCase."""
        paths = ([load.bundled()] if self.options.bundled else []) + list(self.options.case_paths)
        return load.load(paths)

    @cached_property
    def requirements(self) -> dict[str, Requirement]:
        return load.requirements()

    @cached_property
    def machine(self) -> Machine:
        return this_machine(self.options.device)

    @cached_property
    def bench(self) -> Bench:
        o = self.options
        paths = [str(Path.cwd()), *(p for p in sys.path if p)]
        return Bench(
            self.machine, o.grade, self.requirements,
            timeout=o.timeout, paths=paths, weight_offset=o.weight_offset, threads=o.threads,
        )  # fmt: skip

    def load_all(self) -> list[Loaded]:
        """Import every implementation, side by side, and say how each is read."""
        return self.bench.load_all(self.options.specs)

    def runs(self, spec: str) -> list[Run]:
        """The runs that an implementation is asked; empty where it did not load."""
        implementation = self.bench.load(spec).implementation
        if implementation is None:
            return []
        asked = selected(self.cases, self.options.profile, implementation.calls)
        return [r for r in asked if matches(r.id, self.options.only)]

    # --- collecting ------------------------------------------------------------------------------------

    def add(self, verdict: Verdict) -> None:
        """Take one verdict and write it down at once."""
        if self._writer is None:
            self._writer = Writer(self.out / "results.jsonl", self.header)
        self.verdicts.append(self._writer.verdict(verdict))

    def finish(self, interrupted: str = "") -> Result:
        """Conclude on every implementation, close the result file and give what it holds."""
        if self._writer is None:
            self._writer = Writer(self.out / "results.jsonl", self.header)
        missing = "" if interrupted else self._missing()
        why = interrupted or missing
        self.results = conclude_all(self.header, self.verdicts, self.requirements, why)
        self._writer.close(self.results, self.exit_code(), why)
        footer = {"interrupted": why, "exit": self.exit_code()}
        return Result(self.header, tuple(self.verdicts), self.results, footer)

    def _missing(self) -> str:
        """Planned runs without a verdict, in words; "" where none is missing."""
        seen = {(v.implementation, v.run) for v in self.verdicts}
        lost = sum(
            (self.name(spec), run.id) not in seen for spec in self.options.specs for run in self.runs(spec)
        )
        return f"{lost} planned runs have no verdict" if lost else ""

    def exit_code(self) -> int:
        """0 where every implementation is certified, or, in a run that cannot certify, nothing failed."""
        certifying = not self.header["partial"] and not self.header["development"]
        certifying = certifying and self.options.profile in CERTIFYING
        for result in self.results:
            passed = result.counts.get("pass", 0) + result.counts.get("warn", 0)
            if certifying and not result.certified:
                return 1
            if result.failed or not passed:
                return 1
        return 0

    def close(self) -> None:
        """End the workers. A result file that was not finished stays without its footer."""
        if "bench" in self.__dict__:
            self.bench.close()

    # --- describing ------------------------------------------------------------------------------------

    def name(self, spec: str) -> str:
        """The name an implementation goes by in the report: its own, or what --impl was given."""
        return self.bench.load(spec).name

    @cached_property
    def header(self) -> dict[str, Any]:
        """The first line of the result file (docs/design.md has the format)."""
        o = self.options
        return {
            "suite": __version__,
            "cases_digest": load.cases_digest(self.cases),
            "profile": o.profile,
            "grade": o.grade,
            "device": self.machine.name,
            **environment(self.machine),
            "seed": 0,
            "development": bool(o.case_paths) or not o.bundled or o.weight_offset is not None,
            "partial": o.partial or (f"--rn-only={' '.join(o.only)}" if o.only else ""),
            "options": list(o.command),
            "implementations": [self._entry(spec) for spec in o.specs],
        }

    def _entry(self, spec: str) -> dict[str, Any]:
        loaded = self.bench.load(spec)
        if loaded.implementation is None:
            return {"name": spec, "spec": spec, "missing": missing_words(loaded)}
        found = loaded.implementation
        package = package_of(spec, found)
        return {
            "name": found.name, "spec": spec, "version": found.version or package.get("version", ""),
            "package": package.get("package", ""), "digest": package.get("digest", ""),
            "homepage": found.homepage, "issues": found.issues, "modes": list(found.calls),
            "recognised": list(found.recognised),
            "declared": {m: declared_convention(c) for m, c in found.calls.items()},
        }  # fmt: skip


def missing_words(loaded: Loaded) -> str:
    """Why an implementation cannot be called, for the report."""
    if loaded.error == "NotInstalled":
        return f"not installed: {loaded.message.removeprefix(f'{loaded.spec}: not installed. ')}"
    return f"cannot be loaded: {loaded.message}"


def matches(run_id: str, globs: Sequence[str]) -> bool:
    """Whether a run is wanted. Only * and ? are special: run ids hold brackets."""
    escaped = [g.replace("[", "[[]") for g in globs]
    return not globs or any(fnmatch.fnmatchcase(run_id, g) for g in escaped)


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    """A verdict as it came from a pytest-xdist worker."""
    from conformance.reporting.results import parse_verdict

    return parse_verdict(data)
