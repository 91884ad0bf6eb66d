"""Every requirement with what it is tied to: specification lines, public reports, cases, checks, mutants.

All of it is data: case files, the labels of mutants, and the NAME and REQUIREMENTS of the checks are read,
no check and no mutant is imported.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance import load, mutants
from conformance.model import Case, Requirement, Run
from conformance.reporting.consistency import CHECK
from conformance.traceability.kills import Kill, read
from conformance.traceability.specification import Line, lines, public_reports

CHECKS = Path(load.__file__).with_name("checks")

OVER_RUNS = ("REFUSE-ALIKE", "ACCURACY-CONVENTION", "GRADMODE-ALIKE")
"""What is only seen by comparing verdicts: `conformance.reporting` is the check."""

_REPORT_OF_MUTANT = re.compile(r"\bB\d+\b")


@dataclass(frozen=True)
class Row:
    """One requirement and what it is tied to. cases: case id -> how many of its runs name the requirement."""

    requirement: Requirement
    lines: tuple[Line, ...]
    reports: tuple[str, ...]
    cases: Mapping[str, int]
    checks: tuple[str, ...]
    mutants: tuple[str, ...]


@dataclass(frozen=True)
class Links:
    """All rows, in the order of requirements.yaml, and what they are made of."""

    rows: tuple[Row, ...]
    lines: tuple[Line, ...]
    cases: tuple[Case, ...]
    kills: Mapping[str, Kill]


def bundled_runs() -> dict[str, Run]:
    """Every bundled run by its id."""
    return {run.id: run for case in load.load([load.bundled()]) for run in case.runs}


def checks(folder: Path = CHECKS) -> dict[str, tuple[str, ...]]:
    """Every check by name, the one over several runs too, with what it says it speaks about: its
    REQUIREMENTS, and the `families` in which it names what a run was written for."""
    found = {}
    for file in sorted(folder.glob("[!_]*.py")):
        constants = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in ("NAME", "REQUIREMENTS", "families")
        }
        asked = [
            id_
            for id_, requirement in load.requirements().items()
            if requirement.family in constants.get("families", ())
        ]
        found[constants["NAME"]] = tuple(dict.fromkeys([*constants["REQUIREMENTS"], *asked]))
    return {**found, CHECK: OVER_RUNS}


def links() -> Links:
    """Tie everything together.

    Raises:
        BadCase, BadRecord: a case file, requirements.yaml, specification.yaml or the record is wrong.
    """
    known = load.requirements()
    cases = load.load([load.bundled()])
    kills = read({run.id: run for case in cases for run in case.runs})
    told = lines()
    labels = [mutants.label(name) for name in mutants.names()]
    speaking = _speaking(kills.values())
    rows = []
    for id_, requirement in known.items():
        asked = Counter(case.id for case in cases for run in case.runs if id_ in run.requirements)
        breaking = [label for label in labels if label.breaks == id_]
        seeds = {seed for label in breaking for seed in _REPORT_OF_MUTANT.findall(label.source)}
        rows.append(
            Row(
                requirement,
                tuple(line for line in told if id_ in (*line.requirements, *line.structural)),
                (*public_reports(requirement), *sorted(seeds)),
                dict(sorted(asked.items())),
                tuple(sorted(name for name, about in speaking.items() if id_ in about)),
                tuple(label.name for label in breaking),
            )
        )
    return Links(tuple(rows), tuple(told), tuple(cases), kills)


def _speaking(kills: Iterable[Kill]) -> dict[str, set[str]]:
    """What each check speaks about: what it says, and what its recorded findings and formulas name."""
    about: dict[str, set[str]] = defaultdict(set, {name: set(ids) for name, ids in checks().items()})
    for kill in kills:
        for finding in (f for v in kill.verdicts for f in v.findings):
            about[finding.check] |= {finding.requirement, *(c[1] for c in finding.candidates)}
    return about


def needless(tied: Links) -> list[str]:
    """The cases that nothing needs: what they were written for has no mutant, no public report and no line of
    the specification, and no recorded kill is theirs. What they name beside that, other cases ask too."""
    needed = {row.requirement.id for row in tied.rows if row.mutants or row.reports or row.lines}
    killing = {run for kill in tied.kills.values() for run in kill.runs}
    return [
        case.id
        for case in tied.cases
        if not any(run.id in killing or run.requirements[0] in needed for run in case.runs)
    ]
