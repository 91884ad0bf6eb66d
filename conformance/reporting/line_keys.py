"""The keys of a result file's lines: their types and defaults, in one table each.

`reports/report.schema.json` states the same for other programs; tests/test_results.py compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.model import GRADES, MODES, VERDICTS
from conformance.reporting.jsonlines import NON_FINITE

REQUIRED: Any = object()
"""The default of a key that must be there."""


@dataclass(frozen=True)
class Key:
    """One key of a line: what its value must be, in words and as a test, and its default."""

    what: str
    right: Callable[[Any], bool]
    default: Any = REQUIRED


def number(value: Any) -> float:
    """Give a number of a result file as a float: a JSON number or one of "nan", "inf", "-inf"."""
    return NON_FINITE[value] if isinstance(value, str) else float(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value in NON_FINITE
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_list(entry: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(entry(one) for one in value)


def _is_map(entry: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(name, str) and entry(one) for name, one in value.items())
    )


def text(default: Any = REQUIRED) -> Key:
    """Make a key that holds a text."""
    return Key("a text", _is_text, default)


def count(default: Any = REQUIRED) -> Key:
    """Make a key that holds an integer of at least 0."""
    return Key("an integer of at least 0", _is_count, default)


def switch(default: Any = REQUIRED) -> Key:
    """Make a key that holds true or false."""
    return Key("true or false", lambda value: isinstance(value, bool), default)


def one_of(words: tuple[str, ...], default: Any = REQUIRED) -> Key:
    """Make a key that holds one of some words."""
    return Key("one of " + ", ".join(words), lambda value: value in words, default)


TEXTS = Key("a list of texts", _is_list(_is_text), ())
TEXT_MAP = Key("a map of texts", _is_map(_is_text), {})
OBJECTS = Key("a list of objects", _is_list(lambda one: isinstance(one, Mapping)), ())
CONVENTIONS = Key("a map of lists of texts", _is_map(_is_list(_is_text)), {})
COUNTS = Key(
    "verdict -> integer",
    lambda value: _is_map(_is_count)(value) and set(value) <= set(VERDICTS),
)
CANDIDATES = Key(
    "a list of [name, requirement, sentence]",
    _is_list(lambda one: _is_list(_is_text)(one) and len(one) == 3),
    (),
)

HEADER: dict[str, Key] = {
    "type": one_of(("header",)),
    "schema": count(),
    "suite": text(),
    "cases_digest": text(),
    "profile": text(),
    "grade": one_of(GRADES),
    "device": text(),
    "driver": text(""),
    "torch": text(""),
    "triton": text(""),
    "python": text(""),
    "numpy": text(""),
    "seed": count(0),
    "development": switch(False),  # the user's own cases or waivers: never certified
    "partial": text(""),  # what narrowed the run, e.g. "shard 1/2" or "--rn-only"; "" for a whole profile
    "options": TEXTS,
    "implementations": OBJECTS,
}

ENTRY: dict[str, Key] = {
    "name": text(),
    "spec": text(""),  # what --impl was given
    "version": text(""),
    "package": text(""),
    "digest": text(""),
    "homepage": text(""),
    "issues": text(""),
    "modes": Key("a list of fusion modes", _is_list(lambda one: one in MODES), ()),
    "recognised": TEXTS,
    "declared": TEXT_MAP,  # mode -> declared convention in words
    "missing": text(""),  # why it could not be called at all, e.g. "not installed"
    "partial": Key("a text or null", lambda value: value is None or _is_text(value), None),  # after a merge
    "environment": TEXT_MAP,  # after a merge: device, driver, torch, triton, python, numpy
}

MORE: dict[str, Key] = {"type": one_of(("more",)), "implementations": OBJECTS}

FINDING: dict[str, Key] = {
    "check": text(),
    "requirement": text(),
    "severity": one_of(("fail", "warn", "info")),
    "message": text(),
    "where": Key("an object", lambda value: isinstance(value, Mapping), {}),
    "candidates": CANDIDATES,
}

VERDICT: dict[str, Key] = {
    "type": one_of(("verdict",)),
    "implementation": text(),
    "run": text(),
    "case": text(),
    "mode": one_of(MODES),
    "dtypes": TEXT_MAP,
    "verdict": one_of(VERDICTS),
    "findings": OBJECTS,
    "reason": text(""),
    "conventions": TEXTS,
    "stats": Key("a map of numbers", _is_map(_is_number), {}),
    "obtained": text("hardware"),
    "not_covered": TEXTS,
    "core": switch(False),
    "neutral": switch(True),
    "features": TEXTS,
    "requirements": TEXTS,
    "n_rows": count(0),
    "hidden_size": count(0),
    "seconds": Key("a number", _is_number, 0.0),
    "gradients": TEXTS,  # the inputs that a training run differentiates by
    "gradient_conventions": CONVENTIONS,  # gradient -> conventions that explain it
}

IMPLEMENTATION: dict[str, Key] = {
    "type": one_of(("implementation",)),
    "name": text(),
    "certified": switch(),
    "complete": switch(),
    "sentence": text(),
    "named": TEXTS,
    "diagnosis": TEXTS,
    "counts": COUNTS,
    "waived": count(0),
    "conventions": CONVENTIONS,
    "findings": OBJECTS,
    "reasons": TEXTS,
    "gradient_conventions": Key("a map of maps of texts", _is_map(TEXT_MAP.right), {}),
}

LEFT_OUT = ("gradients", "gradient_conventions")
"""Keys that a line has only where they hold something: a forward run says nothing about gradients."""

FOOTER: dict[str, Key] = {
    "type": one_of(("footer",)),
    "verdicts": count(),
    "implementations": count(),
    "counts": COUNTS,
    "exit": count(),
    "interrupted": text(""),
}


def complete(keys: Mapping[str, Key], line: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Check a line against its keys and give it with the defaults filled in.

    Raises:
        ValueError: a missing or unknown key or a wrong value, with what it should be.
    """
    for name in line:
        if name not in keys:
            raise ValueError(f"{what}: unknown key {name!r}; the keys are {', '.join(keys)}")
    whole: dict[str, Any] = {}
    for name, key in keys.items():
        if name not in line:
            if key.default is REQUIRED:
                raise ValueError(f"{what}: {name!r} is missing; it should be {key.what}")
            whole[name] = key.default
            continue
        value = line[name]
        if not key.right(value):
            raise ValueError(f"{what}: {name!r} is {_short(value)}, but should be {key.what}")
        whole[name] = value
    return whole


def filled(keys: Mapping[str, Key], line: Mapping[str, Any]) -> dict[str, Any]:
    """Give a line with the defaults of what it leaves out, unchecked: for what this process made itself."""
    defaults = {name: key.default for name, key in keys.items() if key.default is not REQUIRED}
    return {**defaults, **line}


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:60] + "…"
