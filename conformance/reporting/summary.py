"""The summary of a run: for a terminal, and as Markdown for CI. A stranger should understand either.

Hostile names and texts stay text: control characters are shown, and Markdown's own are escaped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.load import requirements as bundled_requirements
from conformance.model import Finding, Requirement, Verdict
from conformance.reporting.columns import Column, columns
from conformance.reporting.consistency import convention_sentences
from conformance.reporting.results import Result
from conformance.reporting.showing import (
    TALLIED,
    counts_line,
    first_failure,
    obtained,
    place,
    reasons,
    reproduce,
    shorten,
    values,
    visible,
)
from conformance.reporting.training import gradient_sentences

WIDTH = 100
LABEL = 12

WORDS = {
    "certified": "CERTIFIED",
    "failed": "NOT CERTIFIED",
    "missing": "COULD NOT BE CALLED",
    "open": "NOT CERTIFIED (nothing failed)",
}
COLORS = {"certified": "32", "failed": "31", "missing": "31", "open": "33"}


def terminal(
    results: Sequence[Result],
    color: bool = False,
    *,
    requirements: Mapping[str, Requirement] | None = None,
    page: str | Path = "",
) -> str:
    """Give the summary for a terminal, about 100 columns wide, without a line feed at its end.

    Args:
        results: one or more.
        color: whether to colour the verdicts with ANSI codes.
        requirements: id -> Requirement; the bundled ones where left out.
        page: where the page is, in words; nothing is said of it where left out.
    """
    known = bundled_requirements() if requirements is None else requirements
    found = columns(results, known)
    lines: list[str] = []
    for result in results:
        lines += _wrapped(_heading(result), "")
        lines += _wrapped(_caveats(result), "")
    for column in found:
        lines.append("")
        state = _colored(WORDS[column.state], COLORS[column.state], color)
        lines.append(f"{visible(shorten(column.label, 78))}  {state}")
        for label, text in _facts(column, known):
            lines += _labelled(label, visible(text))
    certified = sum(column.one.certified for column in found)
    lines += ["", f"{certified} of {len(found)} implementations certified."]
    if page:
        lines.append(f"Page: {visible(str(page))}")
    return "\n".join(lines)


def markdown(results: Sequence[Result], *, requirements: Mapping[str, Requirement] | None = None) -> str:
    """Give the summary as Markdown, for a CI's job page; a line feed at its end."""
    known = bundled_requirements() if requirements is None else requirements
    found = columns(results, known)
    lines = ["# RMSNorm conformance", ""]
    for result in results:
        lines += [escape(_heading(result)), ""]
        caveats = _caveats(result)
        if caveats:
            lines += [f"**{escape(caveats)}**", ""]
    lines += ["| implementation | verdict | violates | pass | warn | fail | crash | unsupported | not run |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for column in found:
        one = column.one
        counts = [str(one.counts.get(verdict, 0)) for verdict in TALLIED]
        named = ", ".join(escape(id_) for id_ in one.named[:3]) + (" …" if len(one.named) > 3 else "")
        cells = [escape(column.label), WORDS[column.state].lower(), named, *counts]
        lines.append("| " + " | ".join(cells) + " |")
    for column in found:
        lines += ["", f"## {escape(column.label)}: {WORDS[column.state].lower()}", ""]
        for label, text in _facts(column, known):
            shown = code(text) if label == "reproduce" else escape(text)
            lines.append(f"- **{label}**: {shown}")
    return "\n".join(lines) + "\n"


def _heading(result: Result) -> str:
    h = result.header
    ways = obtained(result.verdicts)
    parts = [
        f"RMSNorm conformance {h['suite']}",
        f"profile {h['profile']}",
        f"grade {h['grade']}",
        f"{h['device']}, {ways}",
        f"torch {h['torch']}" if h["torch"] else "",
        f"Triton {h['triton']}" if h["triton"] else "",
    ]
    return " | ".join(part for part in parts if part)


def _caveats(result: Result) -> str:
    parts = []
    if result.footer is None:
        parts.append(
            "This run did not end: its result file has no footer, and what is missing may have failed."
        )
    elif result.footer["interrupted"]:
        parts.append(f"This run did not end: {result.footer['interrupted']}.")
    if result.header["partial"]:
        parts.append(f"Only a part was asked: {result.header['partial']}.")
    if result.header["development"]:
        parts.append("A development run (own cases, settings or waivers): it certifies nothing.")
    return " ".join(parts)


def _facts(column: Column, known: Mapping[str, Requirement]) -> list[tuple[str, str]]:
    """Give what a reader needs of one column, as (label, text); texts are not yet made safe."""
    one = column.one
    facts: list[tuple[str, str]] = []
    if one.certified or not one.named:
        facts.append(("result", one.sentence))
    for id_ in one.named[:3]:
        text = f": {known[id_].text}" if id_ in known else ""
        facts.append(("violates", f"{id_}{text}"))
    if len(one.named) > 3:
        facts.append(("violates", ", ".join(one.named[3:])))
    for sentence in one.diagnosis[:3]:
        facts.append(("diagnosis", shorten(sentence, 300)))
    first = first_failure(column.failing, one.named)
    if first:
        facts.append(("first", _first(*first)))
        facts.append(("reproduce", reproduce(column.spec, first[0].run)))
    for finding in [f for f in one.findings if f.severity != "info"][:3]:
        facts.append((finding.severity, f"{finding.requirement}: {shorten(finding.message, 300)}"))
    if len(one.findings) > 3:
        facts.append(("", f"and {len(one.findings) - 3} more findings over several runs"))
    if one.reasons and one.named:
        facts.append(("because", "; ".join(one.reasons)))
    if one.conventions:
        facts.append(("convention", " / ".join(convention_sentences(one.conventions))))
    if one.gradient_conventions:
        facts.append(("gradients", " / ".join(gradient_sentences(_uniform(one.gradient_conventions)))))
    if column.verdicts:
        facts.append(("runs", counts_line(one)))
    return [*facts, *_grouped(column)]


def _uniform(found: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """Give the combinations whose tensors have one dtype, where there are any: a page has the mixes too."""
    return {key: words for key, words in found.items() if "=" not in key} or found


def _grouped(column: Column) -> list[tuple[str, str]]:
    """Give what warned, was refused and was not run, the two most frequent reasons of each."""
    warned: dict[str, list[Verdict]] = {}
    for verdict in sorted(column.verdicts, key=lambda v: v.run):
        for id_ in sorted({f.requirement for f in verdict.findings if f.severity == "warn"}):
            warned.setdefault(id_, []).append(verdict)
    facts: list[tuple[str, str]] = []
    for id_, runs in sorted(warned.items(), key=lambda item: (-len(item[1]), item[0])):
        told = next(f for f in runs[0].findings if f.requirement == id_ and f.severity == "warn")
        text = f"{len(runs)} x {id_}: {shorten(told.message, 160)} ({runs[0].run})"
        facts.append(("warned", text))
    facts = facts[:2] + ([("warned", f"and {len(facts) - 2} more requirements")] if facts[2:] else [])
    for label, verdict_word in (("refused", "unsupported"), ("not run", "not run")):
        groups = reasons(column.verdicts, verdict_word)
        for reason, runs in groups[:2]:
            facts.append((label, f"{len(runs)} x {shorten(reason.removeprefix('refused: '), 160)}"))
        if len(groups) > 2:
            facts.append((label, f"and {len(groups) - 2} more reasons"))
    return facts


def _first(verdict: Verdict, finding: Finding | None) -> str:
    if finding is None:
        return f"{verdict.run}: {verdict.verdict}: {shorten(verdict.reason or 'no reason was recorded', 300)}"
    told = finding.message
    where = f"{place(finding.where)} {values(finding.where)}".strip()
    if where and place(finding.where) not in told:
        told = f"{told} ({where})"
    return f"{verdict.run}: {shorten(told, 400)}"


def _labelled(label: str, text: str) -> list[str]:
    if label == "reproduce":  # one line, to be copied
        return [f"  {label:<{LABEL}}{text}"]
    return _wrapped(text, " " * (LABEL + 2), f"  {label:<{LABEL}}")


def _wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    return textwrap.wrap(
        visible(text),
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def _colored(text: str, code_: str, color: bool) -> str:
    return f"\x1b[1;{code_}m{text}\x1b[0m" if color else text


SPECIAL = re.compile(r"[\\`*_{}\[\]<>()#+!|~@&$\"']")


def escape(text: str) -> str:
    """Escape a text for Markdown by character references: it makes no markup, link, mention or table cell."""
    shown = SPECIAL.sub(lambda match: f"&#{ord(match[0])};", visible(text))
    shown = shown.replace("://", "&#58;//").replace("www.", "www&#46;")
    shown = re.sub(r"(?i)\b(javascript|data|vbscript|mailto|xmpp):", r"\1&#58;", shown)
    return re.sub(r"^(\s*)([-=>]|\d+\.)", r"\1&#8203;\2", shown)


def code(text: str) -> str:
    """Give a text as Markdown code; a fence longer than any run of backticks in it closes it."""
    shown = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"
