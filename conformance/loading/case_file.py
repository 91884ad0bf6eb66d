"""One case file to its entries: the header, the defaults, and each case with the defaults filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conformance.loading.expand import Entry
from conformance.loading.read_entry import DEFAULTS, ENTRY, case_id
from conformance.loading.value_readers import At, Reader, close_to, described, text
from conformance.loading.yaml_lines import Block, Items, read_yaml

SCHEMA = 1
"""The version of the case format; a file says which one it follows."""

_NEEDED = {
    "about": "Say in one sentence which wrong kernel the case exposes.",
    "requirements": "List ids of cases/requirements.yaml, the one that the case was written for first.",
}


def read_case_file(path: Path) -> Iterator[Entry]:
    """The cases of one file, in order.

    Raises:
        BadCase: the file cannot be read, or a key is unknown, missing, of a wrong type or given twice.
    """
    tree = read_yaml(path)
    top = At(path.name, tree.line, "")
    header(tree, top, ("schema", "about", "defaults", "cases"))
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", path.stem):
        raise top.bad(
            f"the file is called {path.name}, and its name begins every id",
            "Use lower case, digits and underscores.",
        )
    shared: dict[str, Any] = {}
    shared_places: dict[str, At] = {}
    if "defaults" in tree:
        shared, shared_places = _keys(tree["defaults"], _at(tree, top, "defaults"), DEFAULTS)
    seen: dict[str, int] = {}
    for block, at in listed(tree, top, "cases"):
        if "id" not in block:
            raise at.bad("has no id", "Add id: <what_it_asks>.")
        values, places = _keys(block, at, {"id": case_id, **ENTRY})
        name = values.pop("id")
        if name in seen:
            raise places["id"].bad(
                f"'{name}' is the id of the case in line {seen[name]} too", "Rename one of them."
            )
        seen[name] = at.line
        merged = {**_without_sizes(shared, values), **values}
        for key, hint in _NEEDED.items():
            if key not in merged:
                raise at.bad(f"has no {key}", hint)
        yield Entry(f"{path.stem}/{name}", at, merged, {**shared_places, **places})


def header(tree: Block, top: At, known: tuple[str, ...]) -> None:
    """Check the keys at the top of a file: known ones only, schema 1, a text in about."""
    for key in tree:
        if key not in known:
            raise _at(tree, top, key).bad(f"unknown key '{key}'", close_to(key, known))
    if tree.get("schema") is not SCHEMA:
        found = f"schema is {described(tree['schema'])}" if "schema" in tree else "schema is missing"
        raise _at(tree, top, "schema").bad(
            f"{found}, but this suite reads schema {SCHEMA}", f"Write schema: {SCHEMA}."
        )
    text(tree.get("about"), _at(tree, top, "about"))


def listed(tree: Block, top: At, key: str) -> Iterator[tuple[Block, At]]:
    """The mappings listed under a key at the top of a file, each with its place."""
    items = tree.get(key)
    place = _at(tree, top, key)
    if not isinstance(items, Items) or not items:
        raise place.bad(f"is {described(items)}, but should be a list", "Write `- id: ...` below it.")
    for i, block in enumerate(items):
        at = place.inside(i, items.lines[i])
        if not isinstance(block, Block):
            raise at.bad(f"is {described(block)}, but should be a mapping", "Write `- id: ...`.")
        yield block, at


def _at(tree: Block, top: At, key: str) -> At:
    return top.inside(key, tree.lines.get(key, tree.line))


def _keys(block: Any, at: At, readers: Mapping[str, Reader]) -> tuple[dict[str, Any], dict[str, At]]:
    if not isinstance(block, Block):
        raise at.bad(f"is {described(block)}, but should be a mapping", "Write keys below it.")
    values, places = {}, {}
    for key, value in block.items():
        here = at.inside(key, block.lines[key])
        if key not in readers:
            raise here.bad(f"unknown key '{key}'", close_to(key, readers))
        values[key], places[key] = readers[key](value, here), here
    return values, places


def _without_sizes(shared: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The defaults less the way of giving a size (shape, or rows and width) that the case does not use."""
    rows = [*values.get("matrix", {}), *(key for row in values.get("include", []) for key in row)]
    if "shape" in values or "shape" in rows:
        return {key: value for key, value in shared.items() if key not in ("n_rows", "hidden_size")}
    if {"n_rows", "hidden_size"} & {*values, *rows}:
        return {key: value for key, value in shared.items() if key != "shape"}
    return shared
