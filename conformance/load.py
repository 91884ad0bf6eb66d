"""Stage 1, load: case files to `Case`s. Imports no torch; every mistake is a `BadCase` with its remedy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conformance.errors import BadCase
from conformance.loading.case_file import header, listed, read_case_file
from conformance.loading.expand import Entry, expand
from conformance.loading.value_readers import At, close_to, entries, integer, mapping, matching, text, word
from conformance.loading.yaml_lines import Items, read_yaml
from conformance.model import Case, Requirement

REQUIREMENTS_FILE = "requirements.yaml"


def bundled() -> Path:
    """The folder of the bundled cases: inside an installed package, else beside it in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "cases"
    return installed if installed.is_dir() else package.parent / "cases"


def load(paths: Sequence[Path]) -> list[Case]:
    """Read case files, and the *.yaml of folders sorted by name, in the order given.

    Raises:
        BadCase: a file is missing or wrong, or two cases have one id.
    """
    known = requirements()
    cases: dict[str, Case] = {}
    for path in _files(paths):
        for entry in read_case_file(path):
            first = cases.get(entry.id)
            if first is not None:
                raise entry.place("id").bad(
                    f"case '{entry.id}' exists already, in {first.file} line {first.line}",
                    "Rename the case, or this file: its name begins the id.",
                )
            _known_requirements(entry, known)
            runs = expand(entry)
            cases[entry.id] = Case(entry.id, entry.at.file, entry.at.line, entry.values["about"], runs)
    return list(cases.values())


def _files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(p for p in path.glob("*.yaml") if p.name != REQUIREMENTS_FILE)
        if not inside:
            raise BadCase(path.name, 0, "", "the folder holds no *.yaml", "Give a file or another folder.")
        files.extend(inside)
    return list({path.resolve(): path for path in files}.values())


def _known_requirements(entry: Entry, known: Mapping[str, Requirement]) -> None:
    place = entry.place("requirements")
    for id_ in entry.values["requirements"]:
        if id_ not in known:
            raise place.bad(f"unknown requirement '{id_}'", close_to(id_, known))
        if known[id_].needs == "structural":
            raise place.bad(
                f"{id_} is structural: no output can show it",
                "List a requirement that a run can show.",
            )


# --- requirements --------------------------------------------------------------------------------------


def _source(value: Any, at: At) -> str:
    if isinstance(value, Items):
        return "; ".join(entries(text)(value, at))
    return text(value, at)


_REQUIREMENT = mapping(
    {
        "id": matching(r"[A-Z0-9]+(-[A-Z0-9]+)+", "FORMULA-EPS-INSIDE"),
        "rank": integer(0),
        "level": word(("MUST", "SHOULD")),
        "text": text,
        "why": text,
        "source": _source,
        "needs": word(("cpu", "gpu", "structural")),
    }
)


def requirements() -> dict[str, Requirement]:
    """The bundled requirements by id, in the order of their file.

    Raises:
        BadCase: the file is wrong, or an id is given twice.
    """
    return read_requirements(bundled() / REQUIREMENTS_FILE)


def read_requirements(path: Path) -> dict[str, Requirement]:
    """The requirements of one file by id; see `requirements`."""
    tree = read_yaml(path)
    top = At(path.name, tree.line, "")
    header(tree, top, ("schema", "about", "requirements"))
    found: dict[str, Requirement] = {}
    for block, at in listed(tree, top, "requirements"):
        values = _REQUIREMENT(block, at)
        for key in ("id", "rank", "level", "text", "why", "source"):
            if key not in values:
                raise at.bad(f"has no {key}", f"Add {key}: ...")
        if values["id"] in found:
            raise at.bad(f"{values['id']} is given twice", "Remove one of them.")
        found[values["id"]] = Requirement(**values)
    return found


def cases_digest(cases: Iterable[Case]) -> str:
    """Digest of everything that is asked: all runs and all requirements, as canonical JSON.

    The order of files and of cases does not matter; any changed word or number does.
    """
    runs = sorted((run for case in cases for run in case.runs), key=lambda run: run.id)
    asked = {
        "runs": [asdict(run) for run in runs],
        "requirements": [asdict(r) for _, r in sorted(requirements().items())],
    }
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
