"""The accuracy table of a page: errors in ulps, bias and gain over all runs of one dtype combination.

It reads the statistics of `conformance.numerics.statistics`; one that it does not know gets its own column.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance.model import GRADIENT_OF, Verdict
from conformance.reporting.consistency import combination
from conformance.reporting.showing import number

BUCKET = re.compile(r"ulp_(?:le_(?P<upper>[\d.]+)|more)\Z")
"""A bucket of the histogram: elements whose error is at most `upper` ulps, and above the next smaller one."""

KNOWN = re.compile(r"count\Z|ulp_max\Z|gain_row\Z|(bias|gain)(_excess|_sigma|_z|_allowed|_ok)?\Z")
"""Statistics that the fixed columns show, or that only help to judge them."""


@dataclass(frozen=True)
class Extreme:
    """The value of largest magnitude over some runs, in words, and the run that has it."""

    text: str
    run: str


@dataclass(frozen=True)
class AccuracyRow:
    """One mode and dtype combination.

    histogram: (upper edge in ulps, share of all elements from 0 to 1), without empty buckets.
    """

    key: str
    runs: int
    elements: int
    histogram: tuple[tuple[str, float], ...]
    ulp_max: Extreme | None
    bias: Extreme | None
    gain: Extreme | None
    others: dict[str, Extreme]

    @property
    def uniform(self) -> bool:
        """Whether all tensors have one dtype."""
        return "=" not in self.key


def heading(name: str) -> str:
    """Give a statistic without a fixed column a heading: "dx_share" is "dx of bound"."""
    return f"{name.removesuffix('_share')} of bound" if name.endswith("_share") else name


def _order(name: str) -> tuple[int, str]:
    """Sort the shares of gradients in the gradients' order, then everything else by name."""
    shares = [f"{gradient}_share" for gradient in GRADIENT_OF.values()]
    return (shares.index(name) if name in shares else len(shares), name)


def accuracy_rows(verdicts: Iterable[Verdict]) -> tuple[list[str], list[AccuracyRow]]:
    """Give the names of the unknown statistics, and a row for each mode and dtype combination with any."""
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.stats:
            groups[f"{verdict.mode}/{combination(verdict.dtypes)}"].append(verdict)
    names = sorted(
        {
            name
            for group in groups.values()
            for verdict in group
            for name in verdict.stats
            if not KNOWN.match(name) and not BUCKET.match(name)
        },
        key=_order,
    )
    return names, [
        _row(key, sorted(group, key=lambda v: v.run), names) for key, group in sorted(groups.items())
    ]


def _row(key: str, group: Sequence[Verdict], names: Sequence[str]) -> AccuracyRow:
    others = {name: _extreme(group, name) for name in names}
    return AccuracyRow(
        key=key,
        runs=len(group),
        elements=int(sum(c for v in group if math.isfinite(c := v.stats.get("count", 0.0)))),
        histogram=_histogram(group),
        ulp_max=_extreme(group, "ulp_max"),
        bias=_of_allowed(group, "bias", " ULP"),
        gain=_of_allowed(group, "gain", ""),
        others={name: extreme for name, extreme in others.items() if extreme is not None},
    )


def _histogram(group: Sequence[Verdict]) -> tuple[tuple[str, float], ...]:
    counts: dict[str, float] = defaultdict(float)
    edges: dict[str, float] = {}
    for verdict in group:
        for name, value in verdict.stats.items():
            match = BUCKET.match(name)
            if match and math.isfinite(value):
                counts[name] += value
                edges[name] = float(match["upper"]) if match["upper"] else math.inf
    total = sum(counts.values())
    order = sorted((name for name in counts if counts[name]), key=lambda name: edges[name])
    last = max((edge for edge in edges.values() if edge < math.inf), default=0.0)
    return tuple(
        (f"≤ {edges[n]:g}" if edges[n] < math.inf else f"> {last:g}", counts[n] / total) for n in order
    )


def _extreme(group: Sequence[Verdict], name: str) -> Extreme | None:
    having = [v for v in group if name in v.stats]
    if not having:
        return None
    worst = max(having, key=lambda v: _magnitude(v.stats[name]))
    return Extreme(_short(worst.stats[name]), worst.run)


def _of_allowed(group: Sequence[Verdict], name: str, unit: str) -> Extreme | None:
    """Give what rounding does not explain of a statistic, of the run that uses most of what is allowed."""
    having = [v for v in group if f"{name}_excess" in v.stats and f"{name}_allowed" in v.stats]
    if not having:
        return _extreme(group, name)
    worst = max(having, key=lambda v: _used(v, name))
    excess, allowed = worst.stats[f"{name}_excess"], worst.stats[f"{name}_allowed"]
    return Extreme(f"{_short(excess)} of ±{_short(allowed)}{unit}", worst.run)


def _used(verdict: Verdict, name: str) -> float:
    excess = _magnitude(verdict.stats[f"{name}_excess"])
    allowed = _magnitude(verdict.stats[f"{name}_allowed"])
    if math.isinf(excess) or not allowed:
        return math.inf if excess else 0.0
    return excess / allowed


def _magnitude(value: float) -> float:
    return math.inf if math.isnan(value) else abs(value)


def _short(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else number(value)
