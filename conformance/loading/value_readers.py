"""Typed values out of a YAML tree: each reader returns the value, or says file, line, key and remedy."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.errors import BadCase
from conformance.loading.yaml_lines import Block, Items, number_as_string


@dataclass(frozen=True)
class At:
    """A place in a case file: file name, line, and the path of a key such as "cases[2].x"."""

    file: str
    line: int
    key: str

    def inside(self, name: str | int, line: int) -> At:
        """The place of a key or of a list entry below this one."""
        below = f"[{name}]" if isinstance(name, int) else f".{name}" if self.key else name
        return At(self.file, line, self.key + below)

    def bad(self, message: str, hint: str) -> BadCase:
        """The exception for this place, to be raised by the caller."""
        return BadCase(self.file, self.line, self.key, message, hint)


Reader = Callable[[Any, At], Any]
"""Takes a value and its place; returns it in its final form or raises BadCase."""


def close_to(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean '{near[0]}'?" if near else f"Write one of: {', '.join(known)}."


def described(value: object) -> str:
    """A value as an error message shows it: with its YAML type."""
    if value is None:
        return "empty (null)"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    names: tuple[tuple[type, str], ...] = (
        (str, "string"), (int, "integer"), (float, "number"), (dict, "mapping"), (list, "list"),
    )  # fmt: skip
    name = next((text for kind, text in names if isinstance(value, kind)), type(value).__name__)
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    return f"the {name} {shown}"


def text(value: Any, at: At) -> str:
    """A non-empty string, with its white space folded."""
    if not isinstance(value, str) or not value.strip():
        raise at.bad(f"is {described(value)}, but should be a sentence", "Write it in words.")
    return " ".join(value.split())


def number(value: Any, at: At) -> float:
    """A finite number, as float."""
    written = number_as_string(value)
    if written:
        raise at.bad(
            f"'{value}' is read as a string by YAML 1.1, but should be a number",
            f"Write {written}: with a dot, and with a sign in the exponent.",
        )
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise at.bad(f"is {described(value)}, but should be a number", "Write e.g. 1.0 or 1.0e-6.")
    if not math.isfinite(value):
        raise at.bad(f"is {value}, but should be finite", 'Single elements: use put with "nan", "inf".')
    return float(value)


def positive(value: Any, at: At) -> float:
    """A finite number above 0."""
    result = number(value, at)
    if result <= 0:
        raise at.bad(
            f"is {result:g}, but should be above 0",
            "To ask whether eps <= 0 is refused, write scenario: refuse with fault: eps_zero or "
            "eps_negative.",
        )
    return result


def eps(value: Any, at: At) -> float | str:
    """A number above 0, or the word "omitted"."""
    return "omitted" if value == "omitted" else positive(value, at)


def integer(low: int, high: int = 2**31 - 1) -> Reader:
    """A reader of integers from low to high."""

    def read(value: Any, at: At) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise at.bad(f"is {described(value)}, but should be an integer", f"Write e.g. {max(low, 1)}.")
        if not low <= value <= high:
            raise at.bad(f"is {value}, but should lie between {low} and {high}", "Correct the number.")
        return value

    return read


def boolean(value: Any, at: At) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise at.bad(f"is {described(value)}, but should be a boolean", "Write true or false.")
    return value


def word(choices: Sequence[str]) -> Reader:
    """A reader of one word out of a closed list."""

    def read(value: Any, at: At) -> str:
        if value not in choices or not isinstance(value, str):
            shown = value if isinstance(value, str) else described(value)
            raise at.bad(f"'{shown}' is not known here", close_to(str(value), choices))
        return value

    return read


def matching(pattern: str, example: str) -> Reader:
    """A reader of strings of one form."""

    def read(value: Any, at: At) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise at.bad(f"is {described(value)}, but should look like {example}", "Rewrite it so.")
        return value

    return read


def entries(each: Reader, *, least: int = 1, unique: bool = False) -> Reader:
    """A reader of lists, each entry read by `each`."""

    def read(value: Any, at: At) -> list[Any]:
        if not isinstance(value, Items):
            raise at.bad(f"is {described(value)}, but should be a list", "Write [first, second].")
        if len(value) < least:
            raise at.bad(
                f"has {len(value)} entries, so nothing would be asked",
                f"Give at least {least}, or remove the key.",
            )
        read_ones: list[Any] = []
        for i, entry in enumerate(value):
            one = each(entry, at.inside(i, value.lines[i]))
            if unique and one in read_ones:
                raise at.inside(i, value.lines[i]).bad(f"{entry!r} is given twice", "Remove one.")
            read_ones.append(one)
        return read_ones

    return read


def mapping(readers: dict[str, Reader]) -> Reader:
    """A reader of mappings with known keys, each optional."""

    def read(value: Any, at: At) -> dict[str, Any]:
        if not isinstance(value, Block):
            raise at.bad(
                f"is {described(value)}, but should be a mapping",
                f"Write keys below it: {', '.join(readers)}.",
            )
        result = {}
        for key, below in value.items():
            here = at.inside(key, value.lines[key])
            if key not in readers:
                raise here.bad(f"unknown key '{key}'", close_to(key, readers))
            result[key] = readers[key](below, here)
        return result

    return read
