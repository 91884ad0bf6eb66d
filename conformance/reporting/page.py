"""One HTML page from results: self-contained, opens from disk, asks nothing of the network.

Every text goes through `visible` and Jinja's escaping. The page forbids itself everything but its own style
and its own script (by digest), so that a text which were taken for markup could still do nothing.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from conformance.load import requirements as bundled_requirements
from conformance.model import Finding, Requirement, Verdict
from conformance.reporting.accuracy_table import accuracy_rows, heading
from conformance.reporting.columns import Column, columns, differences
from conformance.reporting.consistency import combination, convention_sentences
from conformance.reporting.matrix import CELL_SYMBOLS, STATES, alone, families, not_asked
from conformance.reporting.results import Result
from conformance.reporting.showing import (
    ORDER,
    SYMBOLS,
    TALLIED,
    counted,
    counts_line,
    first_failure,
    interest,
    link,
    number,
    obtained,
    place,
    reasons,
    reproduce,
    shorten,
    values,
    visible,
)
from conformance.reporting.training import gradient_sentences

TEMPLATES = Path(__file__).parent / "templates"

DETAILS = 1500
"""Runs that a page shows in full, shared by its columns; the others are listed by id."""

AT_LEAST, AT_MOST = 15, 150
"""Runs that each column shows in full."""

STATE_WORDS = {
    "certified": "Certified",
    "failed": "Not certified",
    "missing": "Could not be called",
    "open": "Not certified",
}


def write_page(
    results: Sequence[Result],
    path: str | Path,
    requirements: Mapping[str, Requirement] | None = None,
) -> Path:
    """Write the page of some results; an existing file is replaced at once.

    Args:
        results: one or more; `conformance.reporting.columns.side_by_side` says which fit together.
        path: the HTML file; its folder is made.
        requirements: id -> Requirement; the bundled ones where left out.

    Returns:
        The path.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(render(results, requirements), "utf-8", newline="\n")
    os.replace(new, path)
    return path


def render(results: Sequence[Result], requirements: Mapping[str, Requirement] | None = None) -> str:
    """Give the HTML of some results; see `write_page`."""
    known = bundled_requirements() if requirements is None else requirements
    found = columns(results, known)
    rows = families(found, known)
    style = (TEMPLATES / "report.css").read_text("utf-8")
    script = (TEMPLATES / "report.js").read_text("utf-8")
    budget = max(AT_LEAST, min(AT_MOST, DETAILS // max(1, len(found))))
    html = _environment().get_template("report.html.j2")
    return html.render(
        style=Markup(style),
        script=Markup(script),
        style_digest=_digest(style),
        script_digest=_digest(script),
        results=results,
        headings=_headings(results),
        cards=[_card(index, column, budget) for index, column in enumerate(found)],
        families=rows,
        alone=[(id_, found[index].label) for id_, index in alone(rows)] if len(found) > 1 else [],
        not_asked=not_asked(found, known),
        conventions=_conventions(found),
        gradients=_gradients(found),
        differences=differences(found),
        requirements=known,
        states=STATES,
        verdicts=ORDER,
        tallied=TALLIED,
    )


def _headings(results: Sequence[Result]) -> list[Mapping[str, Any]]:
    """Headers that read differently in the page's head: files of one run look the same there."""
    keys = ("suite", "profile", "grade", "device", "torch", "triton")
    return list({tuple(r.header[k] for k in keys): r.header for r in results}.values())


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(
        name=visible,
        heading=heading,
        number=number,
        link=link,
        counted=counted,
        shorten=shorten,
        dtypes=combination,
    )
    environment.globals.update(
        symbols=SYMBOLS, cell_symbols=CELL_SYMBOLS, state_words=STATE_WORDS, reproduce=reproduce
    )
    return environment


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value, lines=True)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@dataclass(frozen=True)
class Card:
    """What the page shows of one column."""

    index: int
    column: Column
    counts: str
    obtained: str
    first: Shown | None
    shown: tuple[Shown, ...]  # runs in full: failing ones first, then warnings
    listed: tuple[Verdict, ...]  # further failing and warning runs, by id only
    unsupported: list[tuple[str, list[Verdict]]]
    not_run: list[tuple[str, list[Verdict]]]
    not_covered: list[tuple[str, int]]
    statistics: tuple[list[str], list[Any]]
    conventions: tuple[str, ...]
    gradients: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """One run in full."""

    verdict: Verdict
    command: str
    findings: tuple[tuple[Finding, str, str, list[tuple[str, str]]], ...]
    # each with its place, its values in words, and whatever else its location holds


def _card(index: int, column: Column, budget: int) -> Card:
    named = column.one.named
    bad = [v for v in column.verdicts if v.verdict in ("crash", "fail", "broken", "warn")]
    bad.sort(key=lambda v: (ORDER.index(v.verdict), *interest(v, named)))
    first = first_failure(column.failing, named)
    return Card(
        index=index,
        column=column,
        counts=counts_line(column.one),
        obtained=obtained(column.verdicts),
        first=_shown(column, first[0], first[1]) if first else None,
        shown=tuple(_shown(column, verdict) for verdict in bad[:budget]),
        listed=tuple(bad[budget:]),
        unsupported=reasons(column.verdicts, "unsupported"),
        not_run=reasons(column.verdicts, "not run"),
        not_covered=_not_covered(column.verdicts),
        statistics=accuracy_rows(column.verdicts),
        conventions=convention_sentences(column.one.conventions),
        gradients=gradient_sentences(column.one.gradient_conventions),
    )


def _shown(column: Column, verdict: Verdict, only: Finding | None = None) -> Shown:
    findings = (only,) if only else verdict.findings
    return Shown(
        verdict,
        reproduce(column.spec, verdict.run),
        tuple((f, place(f.where), values(f.where), _rest(f.where)) for f in findings),
    )


def _rest(where: Mapping[str, Any]) -> list[tuple[str, str]]:
    told = ("tensor", "index", "actual", "expected", "low", "high")
    return [(str(k), shorten(number(v), 400)) for k, v in where.items() if k not in told]


def _not_covered(verdicts: Sequence[Verdict]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for verdict in verdicts:
        for words in verdict.not_covered:
            counts[words] = counts.get(words, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _conventions(found: Sequence[Column]) -> list[tuple[str, list[tuple[str, ...] | None], bool]]:
    """Give (mode/dtypes, each column's conventions or None, whether the dtypes are uniform)."""
    keys = sorted({key for column in found for key in column.one.conventions})
    return [(key, [c.one.conventions.get(key) for c in found], "=" not in key) for key in keys]


def _gradients(found: Sequence[Column]) -> list[tuple[str, list[Mapping[str, str] | None], bool]]:
    """Give (mode/dtypes, each column's conventions of its gradients or None, whether dtypes are uniform)."""
    keys = sorted({key for column in found for key in column.one.gradient_conventions})
    return [(key, [c.one.gradient_conventions.get(key) for c in found], "=" not in key) for key in keys]
