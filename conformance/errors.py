"""One exception class for each way in which a stage can stop: what is wrong, and what to do next.

load raises `BadCase`; finding an implementation raises `NoSuchImplementation`, `NotInstalled`,
`ImportFailed` or `NotRecognised`; run raises `HarnessBroken`; report raises `IncompleteReport` or
`DifferentCases`. A fault of the implementation under test is never one of these: it is a verdict.
"""

# ruff: noqa: N818  (the names say what happened; they are read in messages)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import metadata
from typing import Any


class ConformanceError(Exception):
    """The base of all: `message` gives the value and what it should be, `hint` what to do or type next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class BadCase(ConformanceError):
    """A case file says something that cannot be asked; `file`, `line` and `key` tell where."""

    def __init__(self, file: str, line: int, key: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.args = (file, line, key, message, hint)
        self.file = file
        self.line = line
        self.key = key

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = f" {self.key}:" if self.key else ""
        return f"{place}:{key} {super().__str__()}"


class NoSuchImplementation(ConformanceError):
    """`--impl` names neither a registered adapter nor an attribute that can be imported."""


class ImportFailed(NoSuchImplementation):
    """The module of `--impl` exists and raised while it was imported."""


class NotInstalled(ConformanceError):
    """The adapter is known and the package that it adapts is not installed here."""


class NotRecognised(ConformanceError):
    """The signature does not tell how to call it; `hint` holds the lines that would declare it."""


class HarnessBroken(ConformanceError):
    """The suite or its surroundings failed, so that nothing can be said about the implementation."""


class NotCompiled(HarnessBroken):
    """A compiled implementation was called and its compiled code did not run."""


class IncompleteReport(ConformanceError):
    """A result file that has no footer, or whose footer counts other lines than it has."""


class DifferentCases(ConformanceError):
    """Result files that cannot be merged or compared: they were asked different questions."""


def not_installed(package: str, error: ModuleNotFoundError) -> NotInstalled:
    """Return what an adapter raises where importing its distribution `package` raised `error`."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return NotInstalled(
            f"not installed. The adapter is known and the package {package!r} is not here.",
            f"Install it with `pip install {package}`, or leave this --impl out.",
        )
    return NotInstalled(
        f"not installed. {package} is here and needs the module {error.name!r}, which is not.",
        f"Install what provides {error.name!r}, or leave this --impl out.",
    )


def no_such_name(name: str, known: Iterable[str]) -> NoSuchImplementation:
    """Return the error for a NAME that no adapter has, with the names that are near to it."""
    names = sorted(known)
    close = get_close_matches(name, names, n=3)
    meant = f"Did you mean --impl={close[0]}? " if close else ""
    return NoSuchImplementation(
        f"--impl={name}: there is no adapter of this name.",
        f"{meant}Known: {', '.join(names)}. A function of your own is written "
        "--impl=module:function, for example --impl=mypkg:fused_add_rms_norm.",
    )


def to_json(error: ConformanceError) -> dict[str, Any]:
    """Return the error as JSON values, for crossing from a worker to the suite."""
    return {"error": type(error).__name__, "args": list(error.args)}


def from_json(values: Mapping[str, Any]) -> ConformanceError:
    """Return the error that `to_json` described; an unknown class becomes `HarnessBroken`."""
    found = globals().get(str(values["error"]))
    if not (isinstance(found, type) and issubclass(found, ConformanceError)):
        return HarnessBroken(f"{values['error']}: {values['args']}")
    return found(*values["args"])
