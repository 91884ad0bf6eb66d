"""`python -m conformance minimise`: a failing run made as small as it can be, as a case file of its own."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conformance import load
from conformance.errors import ConformanceError
from conformance.reporting.results import read
from conformance.reporting.showing import counted, shows, visible

if TYPE_CHECKING:
    from conformance.minimise.asked import Asked
    from conformance.minimise.shrink import Shrinking
    from conformance.model import Run, Verdict


class NotReproducedError(ConformanceError):
    """The run does not fail now as the result file says."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    small = commands.add_parser("minimise", help="shrink a failing run to a one-case file (needs torch)")
    small.add_argument(
        "file", type=Path, metavar="RESULTS.jsonl", help="what the plugin wrote; may be partial"
    )
    small.add_argument("id", metavar="RUNID", help="a run that failed in it")
    small.add_argument(
        "--impl", metavar="MODULE:ATTRIBUTE", help="which implementation, or another one than the file says"
    )
    small.add_argument(
        "--cases", action="append", default=[], type=Path, metavar="PATH", help="own case files"
    )
    small.add_argument(
        "-o", "--out", type=Path, metavar="FILE.yaml", help="minimised_<case>.yaml if left out"
    )
    small.add_argument(
        "--limit", type=float, default=120.0, metavar="SECONDS", help="stop looking after this time (120)"
    )
    small.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="for one run (120)")
    small.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    small.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Shrink, confirm, write and tell; 0 where a file was written."""
    from conformance.minimise.asked import asked
    from conformance.minimise.write import case_text, place, written

    found = asked(read(options.file, partial=True), options.id, options.impl, options.cases)
    path = place(found.run, options.out)
    state, smallest, verdict, reasons = _shrunk(found, options)
    command = _command(found, options, path)
    comments = (
        f"Minimised from {found.run.id} by python -m conformance minimise.",
        f"Implementation: {found.spec}",
        f"Fails: {state.requirement}",
        f"Run it: {_command(found, options, Path(path.name))}",
    )
    smallest = written(path, case_text(smallest, comments), smallest)
    _tell(found, state, smallest, verdict, reasons)
    print(f"written: {visible(str(path))}")
    print(command)
    return 0


def _shrunk(found: Asked, options: argparse.Namespace) -> tuple[Shrinking, Run, Verdict, list[str]]:
    from conformance.minimise.confirm import How, asking, confirmed
    from conformance.minimise.shrink import named, shrink

    how = How(options.device, options.timeout, load.requirements())
    before = named(found.verdict, how.requirements)
    with asking(found, how) as ask:
        verdict = ask(found.run)
        now = named(verdict, how.requirements)
        if now != before:
            raise _not_reproduced(found, verdict, before, now)
        state = shrink(found.run, verdict, ask, how.requirements, limit=options.limit, told=_progress)
    held = confirmed(found, how, before, state.failing)
    if held is None:
        raise NotReproducedError(
            f"{found.run.id} failed {before} once and not again in another process",
            "What it gives changes from run to run: look for memory that is not written, or for a race.",
        )
    return state, *held


def _not_reproduced(found: Asked, verdict: Verdict, before: str, now: str) -> NotReproducedError:
    if now:
        return NotReproducedError(
            f"{found.run.id} fails {now} now, but {before} in the result file",
            "Run the suite again with this implementation, device and version, and use the new file.",
        )
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return NotReproducedError(
        f"{found.run.id} is {verdict.verdict!r} now{reason}, but failed {before} in the result file",
        "Alone and on this machine it does not fail: the implementation changed, or it takes another device, "
        "or the calls before it.",
    )


def _command(found: Asked, options: argparse.Namespace, path: Path) -> str:
    """The command that asks the new file, and only it, as it was asked here."""
    words = [f"--impl={found.spec}"]
    if found.grade != "strict":
        words.append(f"--rn-grade={found.grade}")
    if found.weight_offset is not None:
        words.append(f"--rn-weight-offset={found.weight_offset:g}")
    if options.device != "auto":
        words.append(f"--rn-device={options.device}")
    if options.timeout != 120.0:
        words.append(f"--rn-timeout={options.timeout:g}")
    return " ".join(["pytest", *(shlex.quote(word) for word in (*words, os.path.relpath(path)))])


def _tell(found: Asked, state: Shrinking, smallest: Run, verdict: Verdict, reasons: list[str]) -> None:
    from conformance.minimise.told import changes

    print(visible(f"{found.run.id} of {found.spec} fails {state.requirement}"))
    for line in changes(found.run, smallest):
        print(f"  {visible(line)}")
    end = (
        "nothing smaller fails it"
        if state.finished
        else "stopped early by --limit: there may be smaller ones"
    )
    print(f"{counted(state.tried, 'run')} tried in {state.seconds:.0f} s; {end}")
    for reason in reasons:
        print(f"smaller runs were left out: {reason}")
    shown = next((f for f in verdict.failed if shows(f, state.requirement)), None)
    shown = shown or next(iter(verdict.failed), None)
    print(visible(shown.message if shown else verdict.reason or f"the verdict is {verdict.verdict}"))


def _progress(line: str) -> None:
    print(visible(line), file=sys.stderr, flush=True)
