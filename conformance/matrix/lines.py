"""A matrix file: JSON lines, one block an implementation, written when all of its runs have their verdicts.

    {"type": "matrix", "date": ..., "cases_digest": ..., "names": [...], ...}      once, first
    {"type": "run", "spec": ..., "run": ..., "verdict": ..., ...}                  one a run
    {"type": "implementation", "spec": ..., "named": [...], "counts": {...}, ...}  closes a block
    {"type": "session", "seconds": ..., "jobs": ...}                               one a command that wrote it

A block without its closing line was interrupted: it is passed over, and asked again where the file is
resumed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from conformance.errors import ConformanceError

SAME = ("suite", "cases_digest", "device", "torch", "triton", "numpy", "only")
"""What all parts of one matrix have in common; the rest of a header may differ."""

KILLS = ("fail", "crash")
"""Verdicts that kill. `broken` does not: there the suite failed, which says nothing of the implementation."""

ANSWERED = ("pass", "warn", "fail", "crash")
"""Verdicts of runs that were made."""


class BadMatrix(ConformanceError):  # noqa: N818  (like the others of conformance.errors)
    """A matrix file that cannot be read, or files that are no parts of one matrix."""


@dataclass(frozen=True)
class Header:
    """What was to be asked, where and when. names: planned in this file; only: globs of run ids, () for all.

    shard: which part of all names these are, "1/1" for all.
    """

    date: str
    suite: str
    cases_digest: str
    device: str
    torch: str
    triton: str
    numpy: str
    python: str
    driver: str
    names: tuple[str, ...]
    only: tuple[str, ...] = ()
    shard: str = "1/1"


@dataclass(frozen=True)
class RunLine:
    """One run of one implementation.

    dtype: of x, in short. named: what this verdict would be named for if it were the only one, "" where it
    does not fail. failed: its failing findings as (check, requirement).
    """

    spec: str
    run: str
    dtype: str
    verdict: str
    named: str = ""
    failed: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0

    @property
    def case(self) -> str:
        """The id of the case that the run belongs to."""
        return self.run.split("[", 1)[0]

    @property
    def kills(self) -> bool:
        return self.verdict in KILLS


@dataclass(frozen=True)
class Closing:
    """The outcome of one implementation over all its runs.

    Attributes:
        spec: mutant:NAME or variant:NAME.
        expected: the requirement of a mutant's label; "" for a variant.
        named: what is named, the first first.
        counts: verdict -> number of runs.
        overall: failing findings that compare several runs, as (check, requirement).
        unwarned: what a variant should be warned for and was not.
        error: why it could not be loaded at all, one word; "" where it was.
        modes: the fusion modes that it claims; trains: those of them that are not forward only.
        source: digest of the files that it is made of.
        seconds: from its start to this line.
    """

    spec: str
    expected: str
    named: tuple[str, ...]
    counts: Mapping[str, int]
    overall: tuple[tuple[str, str], ...] = ()
    unwarned: tuple[str, ...] = ()
    error: str = ""
    modes: tuple[str, ...] = ()
    trains: tuple[str, ...] = ()
    source: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Block:
    """One implementation: its runs in the order they were asked, and its closing line."""

    closing: Closing
    runs: tuple[RunLine, ...]


@dataclass(frozen=True)
class Session:
    """One command that wrote to the file: how long it took, in how many processes."""

    seconds: float
    jobs: int


@dataclass(frozen=True)
class Matrix:
    """What one or several matrix files hold."""

    header: Header
    blocks: Mapping[str, Block]
    sessions: tuple[Session, ...] = ()
    end: int = 0  # where the last whole block or session ends, in bytes; what follows was interrupted


_TYPES: dict[str, type] = {"matrix": Header, "run": RunLine, "implementation": Closing, "session": Session}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_Line = TypeVar("_Line")


def encode(line: Header | RunLine | Closing | Session) -> str:
    """One line with its newline; what has its default is left out of a run."""
    values = {"type": _NAMES[type(line)], **asdict(line)}
    if isinstance(line, RunLine):
        values = {key: value for key, value in values.items() if value not in ("", ())}
    return json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"


def encode_block(block: Block) -> str:
    """All lines of one implementation."""
    return "".join(encode(run) for run in block.runs) + encode(block.closing)


def read(path: Path) -> Matrix:
    """Read one matrix file. A block that is asked again later replaces the first.

    Raises:
        BadMatrix: it has no header, a whole line that is none, or a block whose runs do not add up.
    """
    header: Header | None = None
    blocks: dict[str, Block] = {}
    sessions: list[Session] = []
    runs: list[RunLine] = []
    position = end = 0
    for number, data in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not data.endswith(b"\n"):
            break  # cut off while it was written
        position += len(data)
        line = _parsed(data, f"{path.name}:{number}")
        if (header is None) != isinstance(line, Header):
            raise BadMatrix(f"{path.name}:{number}: a matrix file begins with its one header", _MAKE)
        if isinstance(line, Header):
            header = line
        elif isinstance(line, RunLine):
            runs.append(line)
            continue
        elif isinstance(line, Closing):
            blocks[line.spec] = _block(line, runs, f"{path.name}:{number}")
        elif isinstance(line, Session):
            sessions.append(line)
        runs, end = [], position
    if header is None:
        raise BadMatrix(f"{path.name} is empty: a matrix file begins with a header", _MAKE)
    return Matrix(header, blocks, tuple(sessions), end)


def _block(closing: Closing, runs: Sequence[RunLine], place: str) -> Block:
    own = tuple(r for r in runs if r.spec == closing.spec)
    counted = dict(Counter(r.verdict for r in own))
    if counted != dict(closing.counts):
        raise BadMatrix(
            f"{place}: {closing.spec} closes with {dict(closing.counts)}, but its lines hold {counted}", _MAKE
        )
    return Block(closing, own)


_MAKE = "Give a file that `python -m conformance score --full` wrote."


def _parsed(data: bytes, place: str) -> object:
    try:
        values = json.loads(data)
        return _made(_TYPES[values.pop("type")], values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadMatrix(
            f"{place}: not a line of a matrix ({type(error).__name__}: {error})", _MAKE
        ) from error


def _made(kind: type[_Line], values: dict[str, Any]) -> _Line:
    """The line of these values; lists are tuples again. Raises TypeError for a key too many or too few."""
    unknown = values.keys() - {f.name for f in fields(kind)}  # type: ignore[arg-type]
    if unknown:
        raise TypeError(f"unknown key {min(unknown)!r}")
    return kind(**{key: _tuples(value) for key, value in values.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def joined(matrices: Iterable[tuple[str, Matrix]]) -> Matrix:
    """Several files, with their names, as one matrix.

    Raises:
        BadMatrix: they were asked different questions, or on different machines, or two hold one name.
    """
    (first_name, first), *others = matrices
    blocks, sessions, names = dict(first.blocks), list(first.sessions), list(first.header.names)
    for name, other in others:
        for key in SAME:
            ours, theirs = getattr(first.header, key), getattr(other.header, key)
            if ours != theirs:
                raise BadMatrix(
                    f"{name} has {key} {_shown(theirs)}, but should have {_shown(ours)} like {first_name}",
                    "These are no parts of one matrix: tell them one by one.",
                )
        twice = sorted(blocks.keys() & other.blocks.keys())
        if twice:
            raise BadMatrix(f"{name} holds {twice[0]}, which another file holds too", "Give each part once.")
        blocks.update(other.blocks)
        sessions += other.sessions
        names += [n for n in other.header.names if n not in names]
    header = Header(**{**vars(first.header), "names": tuple(names)})
    return Matrix(header, blocks, tuple(sessions))


def _shown(value: object) -> str:
    return " ".join(value) or "(all runs)" if isinstance(value, tuple) else repr(value)
