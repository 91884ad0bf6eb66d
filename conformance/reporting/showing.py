"""How names, texts and numbers of a report are shown; shared by the page, the summary and the command line.

Names, exception texts and links come from the implementations under test and from files: they are hostile.
`visible` makes every character that a reader would not see, or that would act, a visible one; what a format
needs on top (HTML, Markdown) is escaped where it is written.
"""

from __future__ import annotations

import math
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from conformance.load import bundled
from conformance.model import Finding, Verdict
from conformance.reporting.conclude import ImplementationResult
from conformance.reporting.results import Result

INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that are not seen or that act on their neighbours."""

MARKS_IN_A_ROW = 3
"""Combining marks that may follow each other; more are shown as their code points."""

SYMBOLS = {
    "pass": "✓",
    "warn": "△",
    "fail": "✗",
    "crash": "☠",
    "unsupported": "⊘",
    "not run": "–",
    "broken": "⚠",
}

ORDER = ("crash", "fail", "broken", "warn", "unsupported", "not run", "pass")
"""Verdicts from the one to look at first to the one to look at last."""

TALLIED = ("pass", "warn", "fail", "crash", "unsupported", "not run")
"""Verdicts whose numbers are always given; `broken` is added where there are any."""

UNCERTAIN = ("unsupported", "not run")


def visible(text: str, *, lines: bool = False) -> str:
    """Show control, format and bidirectional characters as \\x1b or U+202E.

    Args:
        text: any text.
        lines: keep line feeds and tabs.
    """
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if lines and character in "\n\t":
            shown.append(character)
        elif unicodedata.category(character) in INVISIBLE or marks > MARKS_IN_A_ROW:
            code = ord(character)
            shown.append(f"\\x{code:02x}" if code < 0x100 else f"U+{code:04X}")
        else:
            shown.append(character)
    return "".join(shown)


def shorten(text: str, length: int = 200) -> str:
    """Cut a text to a length, with a mark where it was cut."""
    return text if len(text) <= length else text[: length - 2].rstrip() + " …"


def link(address: str) -> str:
    """Give an address if it is plain http or https to a host, else "": nothing else becomes a link."""
    if not re.fullmatch(r"https?://[!-~]+", address) or set(address) & set("<>\"'`\\"):
        return ""
    try:
        return address if urlsplit(address).hostname else ""
    except ValueError:
        return ""


def number(value: Any) -> str:
    """Show a number with 9 digits at most, and "nan", "inf", "-inf" as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def reproduce(spec: str, run: str) -> str:
    """Give the command that asks one run again, quoted for a POSIX shell.

    A case that is not bundled needs its file, whose name begins the run's id; where it lies is not told.
    """
    case = run.split("[")[0]
    own = "" if case in _bundled_cases() else f" --rn-cases={shlex.quote(case.split('/')[0] + '.yaml')}"
    return f"pytest {shlex.quote(f'--impl={spec}')}{own} --rn-only={_quoted(run)}"


@cache
def _bundled_cases() -> frozenset[str]:
    """The ids of the bundled cases, read from their files' lines: quicker than loading them."""
    return frozenset(
        f"{path.stem}/{found}"
        for path in bundled().glob("*.yaml")
        for found in re.findall(r"(?m)^ *- (?:\{ *)?id: *([a-z0-9_]+)", path.read_text(encoding="utf-8"))
    )


def _quoted(text: str) -> str:
    quoted = shlex.quote(text)
    return quoted if quoted != text else f"'{text}'"


def place(where: Mapping[str, Any]) -> str:
    """Give "y[3, 17]" of a finding's location, or "" where it has none."""
    tensor = str(where.get("tensor", ""))
    index = where.get("index")
    if isinstance(index, list | tuple):
        return f"{tensor}[{', '.join(number(i) for i in index)}]"
    return tensor


def values(where: Mapping[str, Any]) -> str:
    """Give "is 1.5, expected 1.0, allowed 0.996 to 1.004" of a finding's location, or ""."""
    parts = []
    if "actual" in where:
        parts.append(f"is {number(where['actual'])}")
    if "expected" in where:
        parts.append(f"expected {number(where['expected'])}")
    if "low" in where and "high" in where:
        parts.append(f"allowed {number(where['low'])} to {number(where['high'])}")
    return ", ".join(parts)


def counted(count: int, noun: str) -> str:
    """Give "1 run", "2 runs"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def first_failure(verdicts: Iterable[Verdict], named: Sequence[str]) -> tuple[Verdict, Finding | None] | None:
    """Choose the failing run to show first, the one of most `interest`.

    Returns:
        The verdict with its finding, or None where nothing failed.
    """
    failing = [v for v in verdicts if v.verdict in ("fail", "crash", "broken")]
    if not failing:
        return None
    verdict = min(failing, key=lambda v: interest(v, named))
    findings = sorted(verdict.failed, key=lambda f: _finding_interest(f, named))
    return verdict, findings[0] if findings else None


def interest(verdict: Verdict, named: Sequence[str]) -> tuple[Any, ...]:
    """Sort runs by how plainly they show what a failure is named for; small runs before large ones."""
    findings = [_finding_interest(finding, named) for finding in verdict.failed]
    best = min(findings or [_finding_interest(None, named)])
    broken = verdict.verdict == "broken"
    return (best[0], broken, *best[1:], verdict.n_rows * verdict.hidden_size, verdict.run)


def _finding_interest(finding: Finding | None, named: Sequence[str]) -> tuple[bool, int, int]:
    """Few wrong formulas come first, since such a run tells them apart; then a plain error."""
    shown = bool(named) and shows(finding, named[0])
    return (not shown, len(finding.candidates) if finding else 0, -_evidence(finding))


def _evidence(finding: Finding | None) -> int:
    """Give the order of magnitude of the first wrong element's relative error, from 0 (tiny) to 4 (large)."""
    if finding is None:
        return 0
    actual, expected = finding.where.get("actual"), finding.where.get("expected")
    if not isinstance(actual, int | float) or not isinstance(expected, int | float):
        return 0
    error, scale = abs(actual - expected), max(abs(actual), abs(expected))
    if not 0 < error < math.inf or not scale < math.inf:
        return 0
    return max(0, 4 + min(0, round(math.log10(error / scale))))


def shows(finding: Finding | None, requirement: str) -> bool:
    """Tell whether a finding shows the violation of a requirement, itself or by a wrong formula."""
    if finding is None:
        return requirement == "RUN-COMPLETES"
    return finding.requirement == requirement or any(c[1] == requirement for c in finding.candidates)


def obtained(verdicts: Iterable[Verdict]) -> str:
    """Say how the verdicts were obtained: "interpreted", or "hardware (40 runs), compiled (2 runs)"."""
    ways = Counter(v.obtained for v in verdicts if v.verdict not in UNCERTAIN)
    if len(ways) <= 1:
        return next(iter(ways), "nothing was run")
    order = sorted(ways, key=lambda way: (-ways[way], way))
    return ", ".join(f"{way} ({counted(ways[way], 'run')})" for way in order)


def counts_line(one: ImplementationResult) -> str:
    """Give "410 pass, 6 warn, 0 fail, ...": always all that a reader must know of."""
    shown = [f"{one.counts.get(word, 0)} {word}" for word in TALLIED]
    if one.counts.get("broken", 0):
        shown.append(f"{one.counts['broken']} broken")
    shown.append(f"{one.waived} waived")
    return ", ".join(shown)


def reasons(verdicts: Iterable[Verdict], verdict: str) -> list[tuple[str, list[Verdict]]]:
    """Group the runs of one verdict by their reason, the most frequent first."""
    groups: dict[str, list[Verdict]] = {}
    for one in verdicts:
        if one.verdict == verdict:
            groups.setdefault(one.reason or "no reason was recorded", []).append(one)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def environment(result: Result, name: str) -> dict[str, str]:
    """Give device, driver, torch, triton, python and numpy of one implementation's runs."""
    own = result.entry(name).get("environment") or {}
    keys = ("device", "driver", "torch", "triton", "python", "numpy")
    return {key: str(own.get(key, result.header.get(key, ""))) for key in keys}
