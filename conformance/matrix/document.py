"""What a matrix says as text: for the terminal, and as the section of docs/score.md of one machine."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.matrix.lines import BadMatrix
from conformance.matrix.telling import FEW, Survivor, Told
from conformance.reporting.showing import counted

DOCUMENT = Path("docs/score.md")

DISTINCT, EASY, HARD = 100, 50, 30
"""Kill sets at least; mutants that most cases kill at most; mutants that FEW runs kill at least."""

LISTED = 40
"""Names of a list in the document; the command says all."""


def text(told: Told, lacking: Sequence[str], listed: int = 0) -> str:
    """Everything that there is to tell, one item a paragraph. listed: names a list, 0 for all."""
    head = "\n".join(f"sample: {reason}" for reason in lacking)
    return "\n".join(p for p in (head, *_counts(told), *_lists(told, listed)) if p)


def section(told: Told) -> str:
    """The same as Markdown, for a whole matrix."""
    header = told.matrix.header
    rows = [
        ("measured", f"{header.date}, {_duration(told)}"),
        ("device", f"{header.device}{f', {header.driver}' if header.driver else ''}"),
        ("versions", f"suite {header.suite}, torch {header.torch}, triton {header.triton}, numpy "
                     f"{header.numpy}, Python {header.python}"),
        ("cases digest", f"`{header.cases_digest}`"),
        *(tuple(line.split(": ", 1)) for line in _counts(told)),
    ]  # fmt: skip
    table = "\n".join(f"| {what} | {said} |" for what, said in rows)
    lists = "\n".join(f"- {line}" for line in _lists(told, LISTED))
    return f"| what | measured |\n| --- | --- |\n{table}\n\n{lists}\n"


def _duration(told: Told) -> str:
    sessions = told.matrix.sessions
    wall = sum(s.seconds for s in sessions)
    jobs = max((s.jobs for s in sessions), default=1)
    commands = f"{counted(len(sessions), 'command')} of up to {jobs} at once"
    return f"{_minutes(wall)} in {commands}; {_minutes(told.computed)} of one process"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _counts(told: Told) -> list[str]:
    """The numbers, as "what: how many"."""
    killed, wrong = len(told.killed), len(told.wrong)
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(told.verdicts.items()))
    few = f"{FEW} runs or fewer"
    lines = [
        f"mutants killed: {killed} of {wrong}",
        f"named as labelled: {told.named} of {killed}{_share(told.named, killed)}",
        f"right variants accused: {len(told.accused)} of {len(told.right)}",
        f"asked (mutant, case, dtype): {told.asked}",
        f"verdicts: {verdicts or 'none'}",
        *(f"killed in {d.dtype}: {d.killed} of {d.asked} that were asked in it" for d in told.by_dtype),
        f"distinct kill sets (case x check): {len(told.kill_sets)} (should be {DISTINCT} or more)",
        f"killed by more than half of their cases: {len(told.by_most_cases)} (should be {EASY} or fewer)",
        f"killed by more than half of their runs: {len(told.by_most_runs)}",
        f"killed by {few}: {len(told.by_few_runs)} (should be {HARD} or more)",
        f"killed only by comparing several runs: {len(told.only_compared)}",
    ]
    for what, worth in (("cases", told.cases), ("runs", told.runs)):
        lines.append(
            f"{what} by what they kill: {len(worth.alone)} kill a mutant in a dtype that no other kills, "
            f"{len(worth.replaceable)} only what others kill too, {len(worth.nothing)} nothing"
        )
    return lines


def _share(part: int, whole: int) -> str:
    """In percent, rounded down: 99.96 % is not all."""
    return f" ({math.floor(1000 * part / whole) / 10:.1f} %)" if whole else ""


def _lists(told: Told, listed: int) -> list[str]:
    """What stands behind the numbers, by name; empty lists are left out."""
    shown = [
        ("survivors", told.survivors),
        ("accused", [f"{b.closing.spec}{_why(b.closing.named, b.closing.unwarned)}" for b in told.accused]),
        ("refuted proofs of equivalence", told.refuted),
        ("named otherwise", [
            f"{b.closing.spec} ({b.closing.named[0] if b.closing.named else 'nothing'}, "
            f"not {b.closing.expected})" for b in told.misnamed
        ]),
        ("kill sets that several have", [" = ".join(group) for group in told.alike]),
    ]  # fmt: skip
    for d in told.by_dtype:
        proved = set(d.proved)
        open_ = [_survivor(s) for s in d.survivors if s not in proved]
        shown.append((f"not killed in {d.dtype}, with what the label claims to show it", open_))
        shown.append((f"proved right in {d.dtype}", [f"{s.spec} ({s.proof})" for s in d.proved]))
    shown.append(("cases that kill nothing", list(told.cases.nothing)))
    shown.append(("cases that kill only what others kill too", list(told.cases.replaceable)))
    for what, slow in zip(("implementations", "cases"), told.slowest(), strict=True):
        shown.append((f"slowest {what}", [f"{name} {_minutes(seconds)}" for name, seconds in slow]))
    return [f"{what} ({len(names)}): {_joined(names, listed)}" for what, names in shown if names]


def _why(named: Sequence[str], unwarned: Sequence[str]) -> str:
    words = [*named[:1], *(f"not warned of {w}" for w in unwarned)]
    return f" ({', '.join(words)})" if words else ""


def _survivor(survivor: Survivor) -> str:
    return f"{survivor.spec} ({survivor.claim or 'no claim'})"


def _joined(names: Iterable[str], listed: int) -> str:
    names = list(names)
    kept = names[:listed] if listed else names
    more = f"; and {len(names) - len(kept)} more" if len(kept) < len(names) else ""
    return "; ".join(kept) + more


# --- the document ---------------------------------------------------------------------------------------


def publish(told: Told, lacking: Sequence[str], path: Path = DOCUMENT) -> None:
    """Replace the section of this machine in the document; the rest is left as it is.

    Raises:
        BadMatrix: the matrix is a sample, or the document has no place for it.
    """
    if lacking:
        raise BadMatrix(
            f"this is a sample, and a sample changes no document: {lacking[0]}",
            "Record what is missing: `python -m conformance score --full`, or --resume FILE.",
        )
    kind = "cpu" if told.matrix.header.device == "cpu" else "gpu"
    begin, end = f"<!-- matrix {kind}: generated -->", f"<!-- matrix {kind}: end -->"
    before = path.read_text("utf-8")
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(before)) != 1:
        raise BadMatrix(
            f"{path.name} should have one section from {begin} to {end}", "Write these two lines."
        )
    made = f"{begin}\n\n{section(told)}\n{end}"
    new = path.with_name(f".{path.name}.new")
    new.write_text(pattern.sub(lambda _: made, before), "utf-8", newline="\n")
    os.replace(new, path)
