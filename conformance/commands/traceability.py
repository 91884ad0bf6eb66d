"""`python -m conformance traceability`: what stands for each line of the specification, and what shows it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    trace = commands.add_parser(
        "traceability", help="the table of specification lines, requirements, cases, checks and mutants"
    )
    trace.add_argument("names", nargs="*", metavar="mutant:NAME", help="with --record: only these, again")
    trace.add_argument("-o", "--out", type=Path, metavar="FILE.md", help="write it there, show nothing")
    trace.add_argument("--record", action="store_true", help="record what catches the mutants (needs torch)")
    trace.add_argument("--again", action="store_true", help="with --record: what is recorded, too")
    trace.add_argument("--jobs", type=int, default=2, metavar="N", help="processes that record (2)")
    trace.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show or write the table; with --record bring the record up to date first."""
    from conformance.traceability.table import table

    if options.record:
        from conformance.traceability.disabling import prune, recorded
        from conformance.traceability.record import record

        record(options.names, again=options.again, jobs=options.jobs, told=_progress)
        for name in prune(recorded().without):
            _progress(f"{name} needs no exception any more: removed")
    elif options.names or options.again:
        _progress("names and --again go with --record")
        return 2
    if options.out:
        options.out.write_text(table(), "utf-8", newline="\n")
    elif not options.record:
        print(table(), end="")
    return 0


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
