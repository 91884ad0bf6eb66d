"""Reads specification.yaml: the lines of the two texts, and what stands for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.load import requirements
from conformance.loading.case_file import header, listed
from conformance.loading.value_readers import At, close_to, entries, integer, mapping, text, word
from conformance.loading.yaml_lines import read_yaml
from conformance.model import Requirement

FILE = Path(__file__).with_name("specification.yaml")

QUOTE = 160
"""The most characters of a quote: enough to find the line by."""


@dataclass(frozen=True)
class Line:
    """One normative line. at: its bullet, counted from 1; untestable: why nothing stands for it, or ""."""

    text: str  # rmsnorm, fused
    section: str
    at: int
    quote: str
    requirements: tuple[str, ...] = ()
    structural: tuple[str, ...] = ()
    untestable: str = ""

    @property
    def place(self) -> str:
        """Where it stands, as the sources of requirements write it: "rmsnorm: Output format 4"."""
        return f"{self.text}: {self.section} {self.at}"


@dataclass(frozen=True)
class Section:
    """One section of a text. bullets: how many it has; a paragraph is one."""

    text: str
    name: str
    bullets: int
    lines: tuple[Line, ...]


def _raw(value: Any, at: At) -> Any:
    return value


_LINE = mapping(
    {
        "at": integer(1),
        "quote": text,
        "requirements": entries(text, unique=True),
        "structural": entries(text, unique=True),
        "untestable": text,
    }
)

_SECTION = mapping(
    {"text": word(("rmsnorm", "fused")), "section": text, "bullets": integer(1), "lines": entries(_raw)}
)


def sections(path: Path = FILE) -> list[Section]:
    """Every section of both texts, in their order.

    Raises:
        BadCase: the file is wrong; a bullet has no line; a line names an unknown requirement, or has neither
            requirements nor a reason for having none, or both.
    """
    known = requirements()
    tree = read_yaml(path)
    top = At(path.name, tree.line, "")
    header(tree, top, ("schema", "about", "sections"))
    found = []
    for block, at in listed(tree, top, "sections"):
        values = _SECTION(block, at)
        for key in ("text", "section", "bullets", "lines"):
            if key not in values:
                raise at.bad(f"has no {key}", f"Add {key}: ...")
        name, places = (values["text"], values["section"]), block["lines"].lines
        lines = [
            _line(name, one, at.inside("lines", block.lines["lines"]).inside(i, places[i]), known)
            for i, one in enumerate(values["lines"])
        ]
        missing = sorted(set(range(1, values["bullets"] + 1)) - {one.at for one in lines})
        beyond = sorted({one.at for one in lines} - set(range(1, values["bullets"] + 1)))
        if missing or beyond:
            wrong = f"bullet {missing[0]} has no line" if missing else f"there is no bullet {beyond[0]}"
            raise at.bad(
                f"{name[0]}: {name[1]}: {wrong}; there are {values['bullets']}", "Give every bullet a line."
            )
        found.append(Section(*name, values["bullets"], tuple(lines)))
    return found


def _line(name: tuple[str, str], block: Any, at: At, known: Mapping[str, Requirement]) -> Line:
    values = _LINE(block, at)
    for key in ("at", "quote"):
        if key not in values:
            raise at.bad(f"has no {key}", f"Add {key}: ...")
    if len(values["quote"]) > QUOTE:
        raise at.bad(f"the quote has {len(values['quote'])} characters", f"Shorten it to {QUOTE}.")
    for key in ("requirements", "structural"):
        for id_ in values.get(key, ()):
            if id_ not in known:
                raise at.bad(f"unknown requirement '{id_}'", close_to(id_, known))
            if (known[id_].needs == "structural") != (key == "structural"):
                other = "structural" if key == "requirements" else "requirements"
                raise at.bad(f"{id_} does not belong under {key}", f"List it under {other}.")
    answered = bool(values.get("requirements") or values.get("structural"))
    if answered == bool(values.get("untestable")):
        told = "has requirements and is called untestable" if answered else "nothing stands for it"
        raise at.bad(told, "Give requirements: or structural:, or untestable: with the reason.")
    return Line(
        *name, values["at"], values["quote"], tuple(values.get("requirements", ())),
        tuple(values.get("structural", ())), values.get("untestable", ""),
    )  # fmt: skip


def lines(path: Path = FILE) -> list[Line]:
    """Every line of both texts, in their order; see `sections`."""
    return [line for section in sections(path) for line in section.lines]


_CITED = re.compile(r"(rmsnorm|fused): ([A-Z][A-Za-z ]*?)(?: (\d+))?,? '")
_REPORT = re.compile(r"[\w.-]+#\d+")


def cited(requirement: Requirement) -> list[tuple[str, str, int | None]]:
    """(text, section, bullet or None) of every quote in a requirement's source."""
    return [(t, s, int(n) if n else None) for t, s, n in _CITED.findall(requirement.source)]


def public_reports(requirement: Requirement) -> list[str]:
    """The public reports in a requirement's source: "vllm#27931"."""
    return list(dict.fromkeys(_REPORT.findall(requirement.source)))
