"""What a page and a summary show: a column for each implementation of each result, with all its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from conformance.errors import DifferentCases
from conformance.model import Requirement, Verdict
from conformance.reporting.conclude import FAILED, ImplementationResult
from conformance.reporting.merge import conclude_all, merge
from conformance.reporting.results import Result
from conformance.reporting.showing import environment

COMPARABLE = ("suite", "cases_digest")
"""Header keys that must be equal for results to stand side by side."""


@dataclass(frozen=True)
class Column:
    """One implementation in one result.

    label: its name; with device, profile, grade or a number where two results hold the same name.
    """

    label: str
    one: ImplementationResult
    verdicts: tuple[Verdict, ...]
    entry: Mapping[str, Any]
    result: Result
    environment: Mapping[str, str]

    @property
    def spec(self) -> str:
        """What --impl was given."""
        return self.entry.get("spec") or self.one.name

    @cached_property
    def state(self) -> str:
        """certified, failed, missing, or open: nothing failed, and still not certified."""
        if self.one.certified:
            return "certified"
        if self.entry.get("missing"):
            return "missing"
        return "failed" if self.one.failed else "open"

    @cached_property
    def failing(self) -> tuple[Verdict, ...]:
        """Verdicts that stop a certification."""
        return tuple(v for v in self.verdicts if v.verdict in FAILED)


def columns(results: Sequence[Result], requirements: Mapping[str, Requirement]) -> list[Column]:
    """Give the columns of some results, in their order.

    A result without implementation lines, read although its run died, is concluded here as interrupted.
    """
    found: list[Column] = []
    for result in results:
        implementations = result.implementations or conclude_all(
            result.header, result.verdicts, requirements, "the result file has no footer"
        )
        by_name: dict[str, list[Verdict]] = {}
        for verdict in result.verdicts:
            by_name.setdefault(verdict.implementation, []).append(verdict)
        for one in implementations:
            found.append(
                Column(
                    one.name,
                    one,
                    tuple(by_name.get(one.name, ())),
                    result.entry(one.name),
                    result,
                    environment(result, one.name),
                )
            )
    return _distinct(found)


def _distinct(found: list[Column]) -> list[Column]:
    """Label columns of the same name by what they differ in."""
    often = Counter(column.label for column in found)
    labelled: list[Column] = []
    for column in found:
        label = column.label
        if often[label] > 1:
            twins = [c for c in found if c.label == label]
            own = [
                several[twins.index(column)]
                for several in zip(*map(_words, twins), strict=True)
                if len(set(several)) > 1
            ]
            label = f"{label} ({', '.join(own) or f'file {twins.index(column) + 1}'})"
        if any(label == other.label for other in labelled):
            label = f"{label} #{sum(label in other.label for other in labelled) + 1}"
        labelled.append(
            Column(
                label,
                column.one,
                column.verdicts,
                column.entry,
                column.result,
                column.environment,
            )
        )
    return labelled


def _words(column: Column) -> tuple[str, ...]:
    header = column.result.header
    return (
        column.environment["device"],
        column.entry.get("version", ""),
        f"torch {column.environment['torch']}",
        f"Triton {column.environment['triton']}",
        str(header["profile"]),
        str(header["grade"]),
    )


def side_by_side(results: Sequence[Result], requirements: Mapping[str, Requirement]) -> list[Result]:
    """Merge what fits together, else let the results stand side by side.

    Raises:
        DifferentCases: they were asked by another suite version or other cases.
    """
    if len(results) == 1:
        return list(results)
    first = results[0].header
    for result in results[1:]:
        for key in COMPARABLE:
            if result.header[key] != first[key]:
                what = key.replace("_", " ")
                raise DifferentCases(
                    f"{what} {first[key]!r} in one file, {result.header[key]!r} in another",
                    "a page compares results of the same suite and cases; run one of them again",
                )
    if all(result.footer is not None for result in results):
        try:
            return [merge(results, requirements)]
        except DifferentCases:
            pass  # e.g. one implementation on two devices: that is a comparison
    return list(results)


@dataclass(frozen=True)
class Difference:
    """One run whose verdicts differ between columns of the same implementation."""

    run: str
    verdicts: tuple[tuple[str, Verdict], ...]  # (label, verdict)


def differences(found: Iterable[Column]) -> list[Difference]:
    """Find the runs that one implementation answers differently in two results, e.g. on two devices.

    A run that was not asked in one of them is no difference.
    """
    by_name: dict[str, list[Column]] = {}
    for column in found:
        by_name.setdefault(column.one.name, []).append(column)
    lines = []
    for twins in by_name.values():
        runs: dict[str, list[tuple[str, Verdict]]] = {}
        for column in twins if len(twins) > 1 else ():
            for verdict in column.verdicts:
                if verdict.verdict != "not run":
                    runs.setdefault(verdict.run, []).append((column.label, verdict))
        for run, verdicts in sorted(runs.items()):
            if len({v.verdict for _, v in verdicts}) > 1:
                lines.append(Difference(run, tuple(verdicts)))
    return lines
