"""Case files written by tests: a header, one case, and what comes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import BadCase
from conformance.load import load
from conformance.model import Case, Run

HEAD = "schema: 1\nabout: A test file.\n"
PLAIN = "about: a wrong kernel, requirements: [FORMULA-WEIGHT]"


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(HEAD + text, encoding="utf-8")
    return path


def cases(folder: Path, keys: str) -> list[Case]:
    """The cases of a file with one case, its keys in flow style."""
    return load([write(folder, f"cases:\n  - {{id: one, {PLAIN}, {keys}}}\n")])


def runs(folder: Path, keys: str) -> dict[str, Run]:
    """The runs of a one-case file, by what stands in the brackets of their ids."""
    return {run.id[len("mine/one[") : -1]: run for run in cases(folder, keys)[0].runs}


def error(folder: Path, text: str) -> BadCase:
    with pytest.raises(BadCase) as caught:
        load([write(folder, text)])
    return caught.value
