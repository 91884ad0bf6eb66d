"""The overview of a page: how each requirement stands in each column."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.model import Requirement
from conformance.reporting.columns import Column
from conformance.reporting.naming import rank
from conformance.reporting.showing import SYMBOLS
from conformance.reporting.training import BACKWARD

OPEN = "open"
"""The run failed for another requirement, so it shows nothing about this one."""

STATES = ("crash", "fail", "broken", "warn", "pass", "unsupported", "not run", OPEN)
"""The first one with a run gives a cell its colour and symbol."""

CELL_SYMBOLS = {**SYMBOLS, OPEN: "·"}

FAMILIES = {
    "RUN": "It runs",
    "HONEST": "Honesty",
    "MEM": "Memory",
    "INPUTS": "Inputs",
    "INPLACE": "In place",
    "OUTPUT": "Outputs",
    "REFUSE": "Refusing",
    "RESIDUAL": "Residual",
    "FORMULA": "Formula",
    "TAIL": "Tail columns",
    "SPECIAL": "Special values",
    "RANGE": "Range",
    "STRIDE": "Strides",
    "ALIGN": "Alignment",
    "SIZE": "Sizes",
    "DTYPE": "Dtypes",
    "INVARIANCE": "Invariance",
    "ACCURACY": "Accuracy",
    "RRMS": "Saved statistic",
    "DX": "Gradient of x",
    "DRESIDUAL": "Gradient of the residual",
    "DWEIGHT": "Gradient of the weight",
    "GRADMODE": "How gradients are asked",
}


@dataclass(frozen=True)
class Cell:
    """One requirement in one column; counts by state, runs and findings over several runs together."""

    counts: Mapping[str, int]
    named: bool = False  # the first requirement that this column is named for

    @property
    def state(self) -> str:
        """The state that decides how the cell looks; "" where nothing was asked."""
        return next((state for state in STATES if self.counts.get(state)), "")

    @property
    def symbol(self) -> str:
        """One character for the state."""
        return CELL_SYMBOLS.get(self.state, "")

    @property
    def short(self) -> str:
        """The number of runs in this state, with the number of all runs where they differ."""
        count, total = self.counts.get(self.state, 0), sum(self.counts.values())
        return str(count) if count == total else f"{count}/{total}"

    @property
    def words(self) -> str:
        """All counts in words."""
        shown = [f"{self.counts[s]} {s}" for s in STATES if self.counts.get(s)]
        text = ", ".join(shown).replace(f" {OPEN}", " failed for another requirement")
        return text or "not asked"


@dataclass(frozen=True)
class Row:
    """One requirement over all columns."""

    id: str
    requirement: Requirement | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Family:
    """The rows of one family, lowest rank first."""

    name: str
    rows: tuple[Row, ...]


def families(found: Sequence[Column], requirements: Mapping[str, Requirement]) -> list[Family]:
    """Give the rows of all requirements that any column was asked, by family, BACKWARD last."""
    tallies = [tally(column) for column in found]
    ids = sorted({id_ for counts in tallies for id_ in counts}, key=lambda id_: rank(id_, requirements))
    grouped: dict[str, list[Row]] = defaultdict(list)
    for id_ in ids:
        cells = tuple(
            Cell(dict(counts.get(id_, {})), column.one.named[:1] == (id_,))
            for column, counts in zip(found, tallies, strict=True)
        )
        grouped[id_.split("-", 1)[0]].append(Row(id_, requirements.get(id_), cells))
    order = [*(name for name in grouped if name not in BACKWARD), *(n for n in BACKWARD if n in grouped)]
    return [Family(FAMILIES.get(name, name), tuple(grouped[name])) for name in order]


def tally(column: Column) -> dict[str, Counter[str]]:
    """Count, for each requirement, the runs of one column by state."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in column.verdicts:
        blamed: dict[str, str] = {}
        for finding in verdict.findings:
            if finding.severity == "fail":
                blamed[finding.requirement] = "crash" if verdict.verdict == "crash" else "fail"
            elif finding.severity == "warn":
                blamed.setdefault(finding.requirement, "warn")
        for id_ in {*verdict.requirements, *blamed}:
            if id_ in blamed:
                state = blamed[id_]
            elif verdict.verdict in ("fail", "crash"):
                state = OPEN
            else:
                state = "pass" if verdict.verdict == "warn" else verdict.verdict
            counts[id_][state] += 1
    for finding in column.one.findings:
        if finding.severity in ("fail", "warn"):
            counts[finding.requirement][finding.severity] += 1
    return dict(counts)


def not_asked(found: Sequence[Column], requirements: Mapping[str, Requirement]) -> list[Requirement]:
    """Give the requirements that no run of any column was asked."""
    asked = {id_ for column in found for id_ in tally(column)}
    return sorted((r for id_, r in requirements.items() if id_ not in asked), key=lambda r: (r.rank, r.id))


def alone(rows: Sequence[Family]) -> list[tuple[str, int]]:
    """Give (requirement, column index) of what fails in one column only and passes in another."""
    found = []
    for family in rows:
        for row in family.rows:
            failing = [i for i, cell in enumerate(row.cells) if cell.state in ("fail", "crash")]
            if len(failing) == 1 and any(cell.state == "pass" for cell in row.cells):
                found.append((row.id, failing[0]))
    return found
