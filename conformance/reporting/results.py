"""Result files: JSON lines with a header, one line a verdict, one an implementation, and a footer.

A file without its footer does not exist: its run died, and what is missing might be what failed.
`read` refuses it, and a file whose lines have the wrong types or do not add up. `reports/report.schema.json`
says the same for other programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from conformance.errors import IncompleteReport
from conformance.model import VERDICTS, Finding, Verdict
from conformance.reporting import line_keys as kinds
from conformance.reporting.conclude import ImplementationResult
from conformance.reporting.jsonlines import LINE_LIMIT, LineTooLongError, decode, encode
from conformance.reporting.scrub import Scrubber

SCHEMA = 1


@dataclass(frozen=True)
class Result:
    """What a result file holds.

    footer is None for a file that was read although it has none (`read(path, partial=True)`); such a result
    is for showing, it can be neither merged nor published.
    """

    header: Mapping[str, Any]
    verdicts: tuple[Verdict, ...]
    implementations: tuple[ImplementationResult, ...] = ()
    footer: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Fill in the defaults, so that a header made in this process is like one that was read."""
        header = kinds.filled(kinds.HEADER, self.header)
        header["implementations"] = [kinds.filled(kinds.ENTRY, e) for e in header["implementations"]]
        object.__setattr__(self, "header", header)
        if self.footer is not None:
            object.__setattr__(self, "footer", kinds.filled(kinds.FOOTER, self.footer))

    def entry(self, name: str) -> Mapping[str, Any]:
        """Give the header's entry of one implementation; KeyError where there is none."""
        entries: list[Mapping[str, Any]] = self.header["implementations"]
        for entry in entries:
            if entry["name"] == name:
                return entry
        raise KeyError(name)

    def result(self, name: str) -> ImplementationResult:
        """Give the line of one implementation; KeyError where there is none."""
        for one in self.implementations:
            if one.name == name:
                return one
        raise KeyError(name)

    def of(self, name: str) -> tuple[Verdict, ...]:
        """Give the verdicts of one implementation."""
        return tuple(v for v in self.verdicts if v.implementation == name)

    @property
    def exit(self) -> int:
        """The exit code that the results stand for: 0 only if every implementation is certified."""
        whole = self.footer is not None and bool(self.implementations)
        return 0 if whole and all(one.certified for one in self.implementations) else 1


class Writer:
    """Writes a result file, a line as it comes; each is on disk when the call returns.

    Args:
        path: the file; it is overwritten, its folder is made.
        header: see `conformance.reporting.line_keys.HEADER`; what is left out gets its default, an unknown
        key is an
            error. Texts are scrubbed of this machine's paths and names.

    Raises:
        ValueError: the header lacks a key, has an unknown one, or a value of the wrong type.
        OSError: the file cannot be written.
    """

    def __init__(self, path: str | Path, header: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._scrubber = Scrubber()
        whole = kinds.complete(kinds.HEADER, {**header, "type": "header", "schema": SCHEMA}, "header")
        whole["implementations"] = [
            kinds.complete(kinds.ENTRY, entry, "header.implementations") for entry in whole["implementations"]
        ]
        self._names = [self._identity(entry["name"]) for entry in whole["implementations"]]
        self._counts: Counter[str] = Counter()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO | None = self.path.open("w", encoding="utf-8", newline="\n")
        for line in _split_header(whole, self._scrubber):
            self._write(line)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the file without a footer unless `close` was called."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def verdict(self, verdict: Verdict) -> Verdict:
        """Write one verdict, and give it back as a reader will see it: scrubbed and cut to the line limit.

        Conclude from what this returns, so that a merge of the files concludes the same.
        """
        line = encode({"type": "verdict", **as_json(verdict)}, self._scrubber.text)
        self._write(line)
        self._counts[verdict.verdict] += 1
        return parse_verdict(decode(line))

    def close(
        self, implementations: Sequence[ImplementationResult], exit: int, interrupted: str = ""
    ) -> None:
        """Write the implementation lines and the footer.

        Args:
            implementations: one for each implementation of the header.
            exit: the exit code of the run.
            interrupted: why planned runs have no verdict, e.g. "stopped by the user"; else "".

        Raises:
            ValueError: an implementation of the header has no line, or the other way round.
        """
        names = sorted(self._identity(one.name) for one in implementations)
        if names != sorted(self._names):
            raise ValueError(f"the implementations are {sorted(self._names)}, but the results are of {names}")
        for one in implementations:
            self._write(encode({"type": "implementation", **as_json(one)}, self._scrubber.text))
        footer = {
            "type": "footer",
            "verdicts": self._counts.total(),
            "implementations": len(names),
            "counts": {verdict: self._counts[verdict] for verdict in VERDICTS},
            "exit": int(exit),
            "interrupted": interrupted,
        }
        self._write(encode(footer, self._scrubber.text))
        assert self._file is not None
        self._file.close()
        self._file = None

    def _write(self, line: str) -> None:
        if self._file is None:
            raise ValueError(f"{self.path.name} is closed; nothing can be added")
        self._file.write(line)
        self._file.flush()

    def _identity(self, name: str) -> str:
        return str(decode(encode({"name": name}, self._scrubber.text))["name"])


def _split_header(header: Mapping[str, Any], scrubber: Scrubber) -> list[str]:
    """Give the header line, and lines of type `more` for the implementations that do not fit into it."""
    entries = list(header["implementations"])
    lines: list[str] = []
    while entries or not lines:
        taken = min(len(entries), 24)
        while True:
            part = entries[:taken]
            whole = (
                {**header, "implementations": part}
                if not lines
                else {"type": "more", "implementations": part}
            )
            try:
                lines.append(encode(whole, scrubber.text))
                break
            except LineTooLongError:
                if taken <= 1:
                    raise
                taken //= 2
        entries = entries[taken:]
    return lines


def as_json(value: Verdict | Finding | ImplementationResult) -> dict[str, Any]:
    """Give a dataclass as a dict of its fields, findings too; unlike `asdict` it copies no mapping proxy.

    What a line has only where it holds something (`line_keys.LEFT_OUT`) is left out where it is empty.
    """
    line: dict[str, Any] = {}
    for field in fields(value):
        entry = getattr(value, field.name)
        if field.name in kinds.LEFT_OUT and not entry:
            continue
        line[field.name] = [as_json(f) for f in entry] if field.name == "findings" else entry
    return line


def parse_verdict(line: Mapping[str, Any]) -> Verdict:
    """Make a Verdict of a line; ValueError says which key is wrong."""
    known = kinds.complete(kinds.VERDICT, line, "verdict")
    del known["type"]
    known["findings"] = tuple(_finding(f) for f in known["findings"])
    known["stats"] = {name: kinds.number(value) for name, value in known["stats"].items()}
    for name in ("conventions", "not_covered", "features", "requirements", "gradients"):
        known[name] = tuple(known[name])
    known["gradient_conventions"] = _tuples(known["gradient_conventions"])
    return Verdict(**known)


def parse_implementation(line: Mapping[str, Any]) -> ImplementationResult:
    """Make an ImplementationResult of a line; ValueError says which key is wrong."""
    known = kinds.complete(kinds.IMPLEMENTATION, line, "implementation")
    del known["type"]
    known["findings"] = tuple(_finding(f) for f in known["findings"])
    known["conventions"] = _tuples(known["conventions"])
    for name in ("named", "diagnosis", "reasons"):
        known[name] = tuple(known[name])
    return ImplementationResult(**known)


def _tuples(lists: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(value) for name, value in lists.items()}


def _finding(line: Mapping[str, Any]) -> Finding:
    known = kinds.complete(kinds.FINDING, line, "finding")
    known["candidates"] = tuple((str(a), str(b), str(c)) for a, b, c in known["candidates"])
    return Finding(**known)


def read(path: str | Path, *, partial: bool = False) -> Result:
    """Read a result file.

    Args:
        path: the file.
        partial: read a file without a footer too, for showing; its `footer` is None.

    Raises:
        IncompleteReport: no footer, a line of the wrong type, or counts that do not add up.
        OSError: the file cannot be read.
    """
    path = Path(path)
    data = path.read_bytes()
    lines = data.split(b"\n")
    rest = lines.pop()  # what stands after the last newline: nothing in a whole file
    if rest and not partial:
        raise _refused(path, len(lines) + 1, "the last line is cut off", "run the suite again")
    reader = _Reader()
    for number, raw in enumerate(lines, 1):
        if len(raw) >= LINE_LIMIT:
            raise _refused(path, number, f"{len(raw)} bytes; a line has fewer than {LINE_LIMIT}")
        try:
            reader.add(decode(raw.decode("utf-8")))
        except (ValueError, RecursionError) as error:
            raise _refused(path, number, str(error)) from error
    if reader.header is None:
        raise _refused(path, 1, "no header")
    if reader.footer is None and not partial:
        raise IncompleteReport(
            f"{path.name} has no footer: the run that wrote it did not end",
            "run the suite again; a part of a run shows nothing about the rest",
        )
    if reader.footer is not None:
        try:
            reader.add_up()
        except ValueError as error:
            raise _refused(path, len(lines), str(error)) from error
    return reader.result()


def _refused(path: Path, line: int, message: str, hint: str = "") -> IncompleteReport:
    hint = hint or "use the file as the suite wrote it; it is not meant to be edited"
    return IncompleteReport(f"{path.name}, line {line}: {message}", hint)


class _Reader:
    """Collects lines and refuses what cannot follow."""

    def __init__(self) -> None:
        self.header: dict[str, Any] | None = None
        self.verdicts: list[Verdict] = []
        self.implementations: list[ImplementationResult] = []
        self.footer: dict[str, Any] | None = None
        self._seen: set[tuple[str, str]] = set()

    def add(self, line: dict[str, Any]) -> None:
        kind = line.get("type")
        if (kind == "header") != (self.header is None):
            raise ValueError(f"a line of type {kind!r}, but the first line and only the first is the header")
        if self.footer is not None:
            raise ValueError("a line after the footer")
        if kind == "header":
            self._header(line)
        elif kind == "more":
            if self.verdicts or self.implementations:
                raise ValueError("a line of type 'more' may only follow the header")
            self._entries(kinds.complete(kinds.MORE, line, "more")["implementations"])
        elif kind == "verdict":
            self._verdict(parse_verdict(line))
        elif kind == "implementation":
            self.implementations.append(parse_implementation(line))
        elif kind == "footer":
            self.footer = kinds.complete(kinds.FOOTER, line, "footer")
        else:
            raise ValueError(f"unknown line type {kind!r}")

    def _header(self, line: dict[str, Any]) -> None:
        if line.get("schema") != SCHEMA:
            raise ValueError(f"schema {line.get('schema')!r}, but this version reads {SCHEMA}")
        header = kinds.complete(kinds.HEADER, line, "header")
        entries, header["implementations"] = header["implementations"], []
        self.header = header
        self._entries(entries)

    def _entries(self, entries: Iterable[Mapping[str, Any]]) -> None:
        assert self.header is not None
        for entry in entries:
            known = kinds.complete(kinds.ENTRY, entry, "header.implementations")
            if any(known["name"] == other["name"] for other in self.header["implementations"]):
                raise ValueError(f"two implementations are called {known['name']!r}")
            self.header["implementations"].append(known)

    def _verdict(self, verdict: Verdict) -> None:
        assert self.header is not None
        if all(verdict.implementation != e["name"] for e in self.header["implementations"]):
            raise ValueError(f"{verdict.implementation!r} is not among the header's implementations")
        key = (verdict.implementation, verdict.run)
        if key in self._seen:
            raise ValueError(f"a second verdict of {verdict.implementation!r} for {verdict.run!r}")
        self._seen.add(key)
        self.verdicts.append(verdict)

    def add_up(self) -> None:
        assert self.header is not None
        assert self.footer is not None
        found = Counter(verdict.verdict for verdict in self.verdicts)
        if self.footer["verdicts"] != len(self.verdicts):
            raise ValueError(
                f"{self.footer['verdicts']} verdicts promised, but there are {len(self.verdicts)}"
            )
        promised = {name: count for name, count in self.footer["counts"].items() if count}
        if promised != dict(found):
            raise ValueError(f"the footer counts {promised}, but the lines are {dict(found)}")
        names = sorted(one.name for one in self.implementations)
        expected = sorted(entry["name"] for entry in self.header["implementations"])
        if names != expected or self.footer["implementations"] != len(names):
            raise ValueError(f"implementation lines of {names}, but the header has {expected}")

    def result(self) -> Result:
        assert self.header is not None
        return Result(self.header, tuple(self.verdicts), tuple(self.implementations), self.footer)
