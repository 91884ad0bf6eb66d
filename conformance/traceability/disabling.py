"""Disables each check and each requirement in turn: some recorded mutant must then survive, or be named for
another requirement. What no mutant depends on is listed in exceptions.yaml with its reason.

A requirement that is structural is none of these: no verdict names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.load import requirements as load_requirements
from conformance.loading.case_file import header
from conformance.loading.value_readers import At, text
from conformance.loading.yaml_lines import Block, read_yaml
from conformance.model import Requirement
from conformance.reporting.consistency import CHECK
from conformance.traceability.kills import WARNED, Kill, outcome, read
from conformance.traceability.links import bundled_runs, checks

EXCEPTIONS = Path(__file__).with_name("exceptions.yaml")


@dataclass(frozen=True)
class Dependents:
    """Who depends on what: check or requirement -> the implementations whose outcome changes without it."""

    checks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    requirements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def without(self) -> tuple[str, ...]:
        """The checks, then the requirements, that nothing depends on."""
        both = (*self.checks.items(), *self.requirements.items())
        return tuple(name for name, specs in both if not specs)


def dependents(
    kills: Iterable[Kill], known: Mapping[str, Requirement], check_names: Iterable[str]
) -> Dependents:
    """Disable every check and every requirement that a verdict can name, one at a time."""
    named = [(kill, _names(kill)) for kill in kills]

    def changed(name: str, **without: str) -> tuple[str, ...]:
        touched = [kill for kill, names in named if name in names]  # the others fare as before
        return tuple(k.spec for k in touched if outcome(k.verdicts, known, **without) != k.outcome)

    return Dependents(
        {name: changed(name, without_check=name) for name in check_names},
        {id_: changed(id_, without_requirement=id_) for id_, r in known.items() if r.needs != "structural"},
    )


def _names(kill: Kill) -> set[str]:
    """The checks and requirements whose absence can change an outcome: those of the findings, the check over
    several runs, and what it was named for."""
    found = [f for v in kill.verdicts for f in v.findings]
    about = {f.requirement for f in found} | {c[1] for f in found for c in f.candidates}
    return {CHECK, kill.outcome.removeprefix(WARNED), *about, *(f.check for f in found)}


def exceptions(path: Path = EXCEPTIONS) -> dict[str, str]:
    """The listed checks and requirements: name -> why no recorded mutant depends on it.

    Raises:
        BadCase: the file is wrong, or a reason is missing.
    """
    tree = read_yaml(path)
    top = At(path.name, tree.line, "")
    header(tree, top, ("schema", "about", "exceptions"))
    block = tree.get("exceptions") or Block()
    if not isinstance(block, Block):
        raise top.inside("exceptions", tree.lines["exceptions"]).bad(
            "is no mapping", "Write NAME: reason below it, or {} where there is none."
        )
    return {name: text(why, top.inside(name, block.lines[name])) for name, why in block.items()}


def recorded() -> Dependents:
    """`dependents` of the committed record."""
    return dependents(read(bundled_runs()).values(), load_requirements(), checks())


def prune(needed: Iterable[str], path: Path = EXCEPTIONS) -> list[str]:
    """Remove the exceptions but the needed ones, with the comments kept; return their names."""
    needed = set(needed)
    gone = [name for name in exceptions(path) if name not in needed]
    lines = path.read_text("utf-8").splitlines(keepends=True)
    entry = re.compile(r"  ([A-Za-z_-]+):")
    left = [line for line in lines if not ((m := entry.match(line)) and m[1] in gone)]
    if gone and not any(entry.match(line) for line in left):
        left = [line.replace("exceptions:", "exceptions: {}") for line in left]
    if gone:
        path.write_text("".join(left), "utf-8", newline="\n")
    return gone
