"""The accuracy statistics of a page: every statistic's extreme over the runs of one dtype combination."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from conformance.consistency import combination
from conformance.model import Verdict
from conformance.showing import number

NOT_SHOWN = ("count",)
"""Statistics that only help to read others; those whose name ends in _ok are left out too."""


@dataclass(frozen=True)
class AccuracyRow:
    """One mode and dtype combination.

    extremes: statistic -> (largest by magnitude, the run that has it, median of the magnitudes).
    """

    key: str
    runs: int
    extremes: dict[str, tuple[str, str, str]]

    @property
    def uniform(self) -> bool:
        """Whether all tensors have one dtype."""
        return "=" not in self.key


def accuracy_rows(verdicts: Iterable[Verdict]) -> tuple[list[str], list[AccuracyRow]]:
    """Give the names of the statistics and one row for each mode and dtype combination that has any."""
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.stats:
            groups[f"{verdict.mode}/{combination(verdict.dtypes)}"].append(verdict)
    names = sorted({n for group in groups.values() for v in group for n in v.stats if _is_shown(n)})
    rows = []
    for key, group in sorted(groups.items()):
        extremes = {}
        for name in names:
            having = sorted((v for v in group if name in v.stats), key=lambda v: v.run)
            if having:
                worst = max(having, key=lambda v: _magnitude(v.stats[name]))
                middle = median(_magnitude(v.stats[name]) for v in having)
                extremes[name] = (_short(worst.stats[name]), worst.run, _short(middle))
        rows.append(AccuracyRow(key, len(group), extremes))
    return names, rows


def _is_shown(name: str) -> bool:
    return name not in NOT_SHOWN and not name.endswith("_ok")


def _magnitude(value: float) -> float:
    return math.inf if math.isnan(value) else abs(value)


def _short(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else number(value)
