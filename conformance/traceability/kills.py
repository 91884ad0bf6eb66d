"""kills.jsonl: which runs caught each recorded mutant and what was found there; and what would be named if a
check or a requirement did not exist.

One JSON object a line and implementation, sorted by name:

    {"spec": "mutant:eps_outside", "breaks": "FORMULA-EPS-INSIDE", "outcome": "FORMULA-EPS-INSIDE",
     "runs": [{"run": "eps/near[none,bf16,h=64]", "verdict": "fail", "findings":
              [["values", "FORMULA-EPS-INSIDE", "fail", [["eps_outside", "FORMULA-EPS-INSIDE"]]]]}]}

A finding is [check, requirement, severity, candidates], a candidate [name, requirement]. `reason` and
`conventions` are there where a conclusion over several runs reads them. Messages and numbers are left out:
they differ from machine to machine, and name nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance.errors import ConformanceError
from conformance.model import Finding, Requirement, Run, Verdict
from conformance.reporting.consistency import FORWARD_ONLY, REFUSED, conventions, refusals
from conformance.reporting.naming import name_failures, rank
from conformance.reporting.training import gradmode_alike

FILE = Path(__file__).with_name("kills.jsonl")

COMMAND = "python -m conformance traceability --record"
"""What brings the record up to date: it asks only what is missing."""

WARNED = "warned: "
"""How an outcome begins where nothing fails and a requirement of level SHOULD is warned of."""


class BadRecord(ConformanceError):  # noqa: N818  (like the others of conformance.errors)
    """The record cannot be read, or speaks of runs that are asked no more."""


@dataclass(frozen=True)
class Kill:
    """One mutant, or one variant that is warned, and the verdicts that make its outcome.

    breaks: the requirement of its label; outcome: what it was named for, "" where it survived.
    """

    spec: str
    breaks: str
    outcome: str
    verdicts: tuple[Verdict, ...]

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of the runs that it takes to name it so."""
        return tuple(v.run for v in self.verdicts)


def read(runs: Mapping[str, Run], path: Path = FILE) -> dict[str, Kill]:
    """The record by implementation; {} where there is no file. runs: every bundled run by its id.

    Raises:
        BadRecord: a line is no such object, or names a run that does not exist.
    """
    kills = {}
    for number, text in enumerate(path.read_text("utf-8").splitlines() if path.exists() else (), 1):
        try:
            kill = parse(text, runs)
        except (ValueError, KeyError, TypeError) as error:
            told = f"{path.name}:{number}: {type(error).__name__}: {error}"
            raise BadRecord(told, f"Remove the line and run {COMMAND}.") from error
        kills[kill.spec] = kill
    return kills


def parse(text: str, runs: Mapping[str, Run]) -> Kill:
    """One line of the record. Raises ValueError, KeyError or TypeError for what is none, or names no run."""
    line = json.loads(text)
    verdicts = tuple(_verdict(line["spec"], one, runs) for one in line["runs"])
    return Kill(line["spec"], line["breaks"], line["outcome"], verdicts)


def write(kills: Mapping[str, Kill], path: Path = FILE) -> None:
    """Write the record, sorted by implementation."""
    lines = [json.dumps(_as_json(kills[spec]), separators=(",", ":")) for spec in sorted(kills)]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")


def _verdict(spec: str, line: Mapping[str, Any], runs: Mapping[str, Run]) -> Verdict:
    """The part of a verdict that a naming reads: what was found is recorded, what was asked is the run's."""
    run = runs[line["run"]]
    findings = tuple(
        Finding(check, requirement, severity, "", {}, tuple((n, r, n) for n, r in candidates))
        for check, requirement, severity, candidates in line.get("findings", ())
    )
    return Verdict(
        implementation=spec, run=run.id, case=run.case, mode=run.mode, dtypes=run.dtypes,
        verdict=line["verdict"], findings=findings, reason=line.get("reason", ""),
        conventions=tuple(line.get("conventions", ())), neutral=not run.features, features=run.features,
        requirements=run.requirements, n_rows=run.n_rows, hidden_size=run.hidden_size,
        gradients=run.gradients,
    )  # fmt: skip


def reduced(spec: str, verdict: Verdict, runs: Mapping[str, Run]) -> Verdict:
    """A verdict as it comes back from the record: without messages, numbers and what is only told."""
    return _verdict(spec, _line(verdict), runs)


def _as_json(kill: Kill) -> dict[str, Any]:
    return {
        "spec": kill.spec, "breaks": kill.breaks, "outcome": kill.outcome,
        "runs": [_line(v) for v in kill.verdicts],
    }  # fmt: skip


def _line(verdict: Verdict) -> dict[str, Any]:
    findings = [
        [f.check, f.requirement, f.severity, sorted({(name, about) for name, about, _ in f.candidates})]
        for f in verdict.findings
        if f.severity != "info"
    ]
    reason = next((word for word in (REFUSED, FORWARD_ONLY) if word in verdict.reason), "")
    line: dict[str, Any] = {"run": verdict.run, "verdict": verdict.verdict}
    more = {"reason": reason, "conventions": list(verdict.conventions), "findings": findings}
    return {**line, **{key: value for key, value in more.items() if value}}


# --- what would be named --------------------------------------------------------------------------------


def outcome(
    verdicts: Sequence[Verdict],
    requirements: Mapping[str, Requirement],
    *,
    without_check: str = "",
    without_requirement: str = "",
) -> str:
    """The first requirement that these verdicts of one implementation are named for.

    "warned: ID" where nothing fails and ID is the first that is warned of; "" where nothing is found.
    without_check, without_requirement: which does not exist. A crash stays one without any check: it is what
    became of the worker.
    """
    left = [_without(v, without_check, without_requirement) for v in verdicts]
    overall = (*conventions(left, {}).findings, *refusals(left), *gradmode_alike(left))
    extra = [f for f in overall if f.check != without_check and f.requirement != without_requirement]
    named = [n for n in name_failures(left, requirements, extra).named if n != without_requirement]
    if named:
        return named[0]
    found = {f.requirement for v in left for f in v.findings if f.severity == "warn"}
    found |= {f.requirement for f in extra if f.severity == "warn"}
    return WARNED + min(found, key=lambda name: rank(name, requirements)) if found else ""


def _without(verdict: Verdict, check: str, requirement: str) -> Verdict:
    """The verdict that the judge would give without a check or a requirement."""
    findings = [
        left for finding in verdict.findings if finding.check != check for left in _left(finding, requirement)
    ]
    if len(findings) == len(verdict.findings) or verdict.verdict not in ("fail", "warn"):
        return replace(verdict, findings=tuple(findings))
    severities = {f.severity for f in findings}
    word = "fail" if "fail" in severities else "warn" if "warn" in severities else "pass"
    if word == "pass" and verdict.reason.startswith(REFUSED):
        word = "unsupported"
    return replace(verdict, verdict=word, findings=tuple(findings))


def _left(finding: Finding, requirement: str) -> list[Finding]:
    """A finding without a requirement: gone if it speaks of it alone, else a finding of what remains."""
    candidates = tuple(c for c in finding.candidates if c[1] != requirement)
    if finding.requirement != requirement:
        return [replace(finding, candidates=candidates)]
    return [replace(finding, requirement=candidates[0][1], candidates=candidates)] if candidates else []
