"""What pytest collects in a certification: case files, an item for each run, stand-ins for what is missing.

Nothing but pytest is imported before there is something to collect.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conformance.certification import Certification
    from conformance.model import Case, Run, Verdict

CERTIFICATION = pytest.StashKey["Certification"]()
"""Where a pytest config holds its certification; absent without --impl."""


class RunFailedError(Exception):
    """A run failed; its verdict says why."""


class MissingImplementationError(Exception):
    """An implementation cannot be called."""


def cases_of(certification: Certification) -> list[Case]:
    """All cases; raises pytest.UsageError for a mistake in a case file."""
    from conformance.errors import BadCase

    try:
        return certification.cases
    except BadCase as error:
        raise pytest.UsageError(str(error)) from None


def node_ids(certification: Certification) -> Iterator[tuple[str, str, Run]]:
    """(node id, what --impl was given, run) of everything that is asked."""
    certification.load_all()
    for spec in certification.options.specs:
        name = certification.name(spec)
        for run in certification.runs(spec):
            yield f"cases/{run.file}::{run.id.split('/', 1)[1]}@{name}", spec, run


class CaseFile(pytest.File):
    """One case file: an item for each implementation and run."""

    def collect(self) -> Iterator[pytest.Item]:
        for node, spec, run in node_ids(self.config.stash[CERTIFICATION]):
            if run.file == self.path.name:
                name = node.removeprefix(f"{self.nodeid}::")
                yield CaseItem.from_parent(self, name=name, spec=spec, run=run)


class CaseItem(pytest.Item):
    """One run for one implementation."""

    def __init__(self, *, spec: str, run: Run, **rest: Any) -> None:
        super().__init__(**rest)
        self.spec, self.asked = spec, run
        self.verdict: Verdict | None = None

    def runtest(self) -> None:
        self.verdict = self.config.stash[CERTIFICATION].bench.verdict(self.spec, self.asked)
        if self.verdict.verdict in ("fail", "crash", "broken"):
            raise RunFailedError(self.verdict)
        if self.verdict.verdict in ("unsupported", "not run"):
            pytest.skip(self.verdict.reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, RunFailedError) and self.verdict is not None:
            from conformance.reporting.lines import failure

            return failure(self.verdict, self.spec)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class MissingItem(pytest.Item):
    """Stands for an implementation that cannot be called: it fails, and says why."""

    def __init__(self, *, spec: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.spec = spec

    def runtest(self) -> None:
        loaded = self.config.stash[CERTIFICATION].bench.load(self.spec)
        told = "\n".join(filter(None, [f"{self.spec}: {loaded.message}", loaded.hint]))
        raise MissingImplementationError(told)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"load {self.spec}"


def collect_file(certification: Certification, path: Path, parent: pytest.Collector) -> CaseFile | None:
    """`path` as a case file of the certification; None for any other file."""
    if path.suffix != ".yaml" or not any(case.file == path.name for case in cases_of(certification)):
        return None
    return CaseFile.from_parent(parent, path=path, nodeid=f"cases/{path.name}")


def arrange(certification: Certification, session: pytest.Session, items: list[pytest.Item]) -> None:
    """Put stand-ins for missing implementations first, then the runs of one implementation after another."""
    order = {spec: i for i, spec in enumerate(certification.options.specs)}
    missing = [s for s in order if certification.bench.load(s).implementation is None]
    own = [i for i in items if isinstance(i, CaseItem)]
    own.sort(key=lambda item: order[item.spec])  # stable: a worker is started once for each implementation
    others = [i for i in items if not isinstance(i, CaseItem)]
    stand_ins = [
        MissingItem.from_parent(session, name=f"load@{s}", nodeid=f"load@{s}", spec=s) for s in missing
    ]
    items[:] = [*stand_ins, *own, *others]
