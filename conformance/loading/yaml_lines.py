"""YAML with line numbers: mappings and lists that remember where each key and entry stands.

YAML 1.1 surprises are errors here: a key given twice (the last would win), `on` and `no` (true and false),
merge keys. What a key may hold is not decided here; see `conformance.loading.read_entry`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import BadCase


class Block(dict[str, Any]):
    """A YAML mapping; `line` is its own line and `lines[key]` the line of each key, counted from 1."""

    line: int = 0
    lines: dict[str, int]


class Items(list[Any]):
    """A YAML list; `line` is its own line and `lines[i]` the line of each entry, counted from 1."""

    line: int = 0
    lines: list[int]


_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is 8 times faster

_NUMBER_AS_STRING = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+")


class _SurpriseError(Exception):
    def __init__(self, node: yaml.Node, key: str, message: str, hint: str):
        super().__init__(message)
        self.line = node.start_mark.line + 1
        self.key, self.message, self.hint = key, message, hint


class _Loader(_BASE):
    """A safe loader: plain values only, as Block, Items, str, int, float, bool, None."""


def _mapping(loader: Any, node: yaml.MappingNode) -> Block:
    block = Block()
    block.line, block.lines = node.start_mark.line + 1, {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            message = f"the key {key!r} is not a string"
            raise _SurpriseError(key_node, str(key), message, "Put the key in quotes.")
        if key in block:
            raise _SurpriseError(
                key_node, key, f"the key '{key}' is given twice here, first in line {block.lines[key]}",
                "Remove one of them: YAML would silently keep the last.",
            )  # fmt: skip
        block[key] = loader.construct_object(value_node, deep=True)
        block.lines[key] = key_node.start_mark.line + 1
    return block


def _sequence(loader: Any, node: yaml.SequenceNode) -> Items:
    items = Items(loader.construct_object(child, deep=True) for child in node.value)
    items.line = node.start_mark.line + 1
    items.lines = [child.start_mark.line + 1 for child in node.value]
    return items


def _boolean(loader: Any, node: yaml.ScalarNode) -> bool:
    if node.value not in ("true", "false"):
        value = bool(loader.construct_yaml_bool(node))
        raise _SurpriseError(
            node, node.value, f"YAML 1.1 reads {node.value} without quotes as {str(value).lower()}",
            f'Write {str(value).lower()} if that is meant, else "{node.value}" in quotes.',
        )  # fmt: skip
    return bool(node.value == "true")


def _merge(loader: Any, node: yaml.ScalarNode) -> str:
    raise _SurpriseError(
        node, "<<", "merge keys (<<) are not supported", "Put shared keys under `defaults:`."
    )


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _sequence)
_Loader.add_constructor("tag:yaml.org,2002:bool", _boolean)
_Loader.add_constructor("tag:yaml.org,2002:merge", _merge)


def read_yaml(path: Path) -> Block:
    """Read one YAML file whose top level is a mapping.

    Raises:
        BadCase: the file cannot be read, is not YAML, holds a key twice, or is no mapping.
    """
    name = path.name
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadCase(
            name,
            0,
            "",
            f"cannot be read: {reason}",
            "Give a YAML file in UTF-8, or a folder of them.",
        ) from error
    try:
        tree = yaml.load(text, Loader=_Loader)
    except _SurpriseError as error:
        raise BadCase(name, error.line, error.key, error.message, error.hint) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        problem = getattr(error, "problem", None) or str(error)
        raise BadCase(
            name,
            line,
            "",
            f"is not YAML: {problem}",
            "Check indentation, quotes and brackets there.",
        ) from None
    if not isinstance(tree, Block):
        raise BadCase(name, 1, "", "has no mapping at the top level", "Start the file with `schema: 1`.")
    return tree


def number_as_string(value: object) -> str | None:
    """How to write a number that YAML 1.1 read as a string: "1e-6" gives "1.0e-6"; None for others."""
    if not isinstance(value, str) or not _NUMBER_AS_STRING.fullmatch(value):
        return None
    mantissa, exponent = re.split("[eE]", value)
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{exponent}" if exponent[0] in "+-" else f"{mantissa}e+{exponent}"
