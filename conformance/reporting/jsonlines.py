"""One line of a result file: strict JSON, scrubbed, and shorter than 16 KiB.

Texts and lists that are too long are cut with a marker that says how much is missing. What decides a verdict,
which requirement, severity, check and wrong formula, is cut last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

LINE_LIMIT = 16 * 1024
"""Bytes of a line with its newline."""

STEPS = ((2000, 64), (600, 32), (200, 16), (100, 12), (60, 8), (60, 4), (60, 2))
"""(characters of a text, entries of a list), tried in this order until the line fits."""

IDENTITIES = frozenset(
    {
        "type",
        "implementation",
        "run",
        "case",
        "mode",
        "verdict",
        "name",
        "check",
        "requirement",
        "severity",
    }
)
"""Keys whose texts are cut at CUT_IDENTITY only: other lines, and the verdict over all runs, rely on them."""

CUT_IDENTITY = 400

WHOLE_LISTS = frozenset(
    {
        "findings",
        "candidates",
        "named",
        "implementations",
        "requirements",
        "features",
        "conventions",
        "gradient_conventions",
    }
)
"""Lists that decide: cut at 4 times the length of the others."""

CONVENTIONS = frozenset({"conventions", "gradient_conventions"})
"""Names of conventions, the likeliest first. A name is never cut, and a list as late as possible: less of
either gives another intersection over the runs."""

CONVENTIONS_AT_LEAST = 32
"""y has 12. A gradient has more than 32 only in the oddest mix of dtypes; a line may not hold them all."""

MAP_LIMIT = 40
"""Entries of a map in a line that must be cut; every line type has fewer keys."""

NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class LineTooLongError(ValueError):
    """Even cut to the last step, the line does not fit."""


def encode(line: Mapping[str, Any], clean: Callable[[str], str]) -> str:
    """Give one line, newline included.

    Args:
        line: numbers, texts, None, and lists, tuples and dicts of them.
        clean: applied to every text that is not an identity.

    Raises:
        LineTooLongError: the line has too many entries to be cut.
        TypeError: a value that JSON does not have.
    """
    text = ""
    for step in (None, *STEPS):
        text = json.dumps(_plain(line, clean, step, ""), allow_nan=False, ensure_ascii=False) + "\n"
        text = _escape_separators(text)
        if len(text.encode("utf-8")) < LINE_LIMIT:
            return text
    raise LineTooLongError(f"a line of type {line.get('type')!r} has {len(text)} characters after cutting")


def _escape_separators(text: str) -> str:
    """Escape what is legal in JSON but ends a line or misleads in a viewer: U+2028, U+2029, U+0085."""
    for mark in "\u2028\u2029\x85\x7f":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _plain(value: Any, clean: Callable[[str], str], step: tuple[int, int] | None, key: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else number_word(value)
    if isinstance(value, str):
        return _text(value, clean, step, key)
    if isinstance(value, Mapping):
        entries = list(value.items())
        if step and key not in WHOLE_LISTS:
            entries = entries[:MAP_LIMIT]
        return {
            _text(str(k), clean, None, "name"): _plain(v, clean, step, key if key in CONVENTIONS else str(k))
            for k, v in entries
        }
    if isinstance(value, list | tuple):
        return _list(list(value), clean, step, key)
    raise TypeError(
        f"a result file has no value of type {type(value).__name__} ({key}); give a number or a text"
    )


def _list(value: list[Any], clean: Callable[[str], str], step: tuple[int, int] | None, key: str) -> list[Any]:
    limit = len(value) if step is None else step[1] * (4 if key in WHOLE_LISTS else 1)
    if key == "implementations":
        limit = len(value)  # the writer splits them over several lines
    elif key in CONVENTIONS:
        limit = max(limit, CONVENTIONS_AT_LEAST)
    kept = value[:limit]
    if key == "findings" and len(value) > limit:  # those that decide stay
        order = {"fail": 0, "warn": 1}
        ranked = sorted(range(len(value)), key=lambda i: (order.get(_severity(value[i]), 2), i))
        kept = [value[i] for i in sorted(ranked[:limit])]
    entries = [_plain(entry, clean, step, key) for entry in kept]
    if key in CONVENTIONS:
        return entries  # a marker would be taken for a name
    if len(value) > limit and entries and all(isinstance(entry, str) for entry in entries):
        entries.append(f"… {len(value) - limit} more")
    return entries


def _severity(entry: Any) -> str:
    return entry.get("severity", "") if isinstance(entry, Mapping) else ""


def _text(value: str, clean: Callable[[str], str], step: tuple[int, int] | None, key: str) -> str:
    value = value.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates
    limit = step[0] if step else len(value)
    if key in IDENTITIES:
        limit = CUT_IDENTITY
    elif key in CONVENTIONS:
        limit, value = CUT_IDENTITY, clean(value)
    else:
        value = clean(value)
    if len(value) <= limit:
        return value
    return f"{value[:limit]} … [{len(value) - limit} more characters]"


def number_word(value: float) -> str:
    """Give the text that stands for a non-finite number: nan, inf or -inf."""
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def decode(text: str) -> dict[str, Any]:
    """Read one line strictly: a JSON object, without NaN literals and without a key twice.

    Raises:
        ValueError: it is none.
    """

    def refuse(literal: str) -> None:
        raise ValueError(f"the literal {literal} is not JSON; a non-finite number is a text")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return found

    line: dict[str, Any] = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    if type(line) is not dict:
        raise ValueError(f"a line is a JSON object, not {type(line).__name__}")
    return line
