"""Which run of which implementation is to be minimised, and how it was judged: out of a result file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from conformance.errors import ConformanceError
from conformance.load import bundled, load
from conformance.model import Run, Verdict
from conformance.reporting.naming import FALLBACK
from conformance.reporting.results import Result

_OFFSET = "--rn-weight-offset="


class NothingToMinimiseError(ConformanceError):
    """The result file does not show such a failure, or does not say whose it is."""


@dataclass(frozen=True)
class Asked:
    """A failure of a result file.

    run: as the case files have it now. verdict: as the file has it. spec: what --impl is given. grade and
    weight_offset: as the file's run had them.
    """

    run: Run
    verdict: Verdict
    spec: str
    grade: str
    weight_offset: float | None


def asked(result: Result, run_id: str, spec: str | None, cases: Sequence[Path]) -> Asked:
    """Find the failing run `run_id` of a result.

    Args:
        result: what was read of a result file, whole or partial.
        run_id: the run.
        spec: what --impl was given, to choose among several implementations, or to put the run to another
            one than the file's; None for the one that failed it.
        cases: own case files and folders beside the bundled ones.

    Raises:
        NothingToMinimiseError: no such run or implementation, it did not fail, or its call is not known.
        BadCase: a case file is wrong.
    """
    of_run = [v for v in result.verdicts if v.run == run_id]
    if not of_run:
        raise _unknown(result, run_id)
    verdict = _chosen(result, of_run, spec)
    if verdict.verdict not in FALLBACK:
        reason = f" ({verdict.reason})" if verdict.reason else ""
        raise NothingToMinimiseError(
            f"{run_id} is {verdict.verdict!r} for {verdict.implementation} in this file{reason}, "
            "and should be 'fail' or 'crash'",
            _near(run_id, _failing(result, verdict.implementation)) or "Nothing failed in it.",
        )
    runs = {run.id: run for case in load([bundled(), *cases]) for run in case.runs}
    if run_id not in runs:
        raise NothingToMinimiseError(
            f"{run_id} is in the result file, but no case file here has it",
            "Give the case file that it comes from with --cases PATH.",
        )
    entry = result.entry(verdict.implementation)
    known = {one[key] for one in result.header["implementations"] for key in ("name", "spec")}
    called = spec if spec is not None and spec not in known else str(entry["spec"])
    if not called or "<" in called:
        raise NothingToMinimiseError(
            f"the file does not tell how {verdict.implementation} was given to --impl",
            "Add --impl=MODULE:ATTRIBUTE.",
        )
    return Asked(runs[run_id], verdict, called, str(result.header["grade"]), _offset(result.header))


def _chosen(result: Result, of_run: Sequence[Verdict], spec: str | None) -> Verdict:
    """The verdict of the implementation that is meant: the one named, or the only one that failed."""
    entries = result.header["implementations"]
    for verdict in of_run:
        entry = result.entry(verdict.implementation)
        if spec is not None and spec in (entry["name"], entry["spec"]):
            return verdict
    if len(entries) == 1:  # --impl may give another version of it
        return of_run[0]
    names = [str(entry["spec"] or entry["name"]) for entry in entries]
    if spec is not None:
        if spec in {entry[key] for entry in entries for key in ("name", "spec")}:
            raise NothingToMinimiseError(
                f"{spec} was not asked {of_run[0].run} in this file",
                f"Asked it were: {_several([v.implementation for v in of_run])}.",
            )
        raise NothingToMinimiseError(
            f"--impl={spec}: the file has no such implementation, and holds several",
            _meant(spec, names) or f"Choose one of {_several(names)}.",
        )
    failed = [v for v in of_run if v.verdict in FALLBACK]
    if len(failed) == 1 or len(of_run) == 1:
        return (failed or list(of_run))[0]
    raise NothingToMinimiseError(
        f"{of_run[0].run} failed for {len(failed)} of {len(entries)} implementations in this file",
        f"Choose one with --impl=SPEC: {_several(names)}.",
    )


def _unknown(result: Result, run_id: str) -> NothingToMinimiseError:
    near = _near(run_id, _failing(result)) or _near(run_id, sorted({v.run for v in result.verdicts}))
    return NothingToMinimiseError(
        f"the file has no verdict on {run_id!r}",
        near or "Nothing was asked in it.",
    )


def _failing(result: Result, implementation: str = "") -> list[str]:
    return sorted(
        {v.run for v in result.verdicts if v.verdict in FALLBACK and implementation in ("", v.implementation)}
    )


def _near(run_id: str, ids: Sequence[str]) -> str:
    near = get_close_matches(run_id, ids, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"What failed in it: {_several(ids)}." if ids else ""


def _meant(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"Did you mean --impl={near[0]}?" if near else ""


def _several(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _offset(header: Mapping[str, Any]) -> float | None:
    """The --rn-weight-offset that the file's run was given."""
    given = [word.removeprefix(_OFFSET) for word in header["options"] if word.startswith(_OFFSET)]
    try:
        return float(given[-1]) if given else None
    except ValueError:
        raise NothingToMinimiseError(
            f"the file says {_OFFSET}{given[-1]}, and that should be a number",
            "Use the file as the suite wrote it.",
        ) from None
