"""`python -m conformance diagnosis`: how well failures are named, measured on faults in a second form."""

from __future__ import annotations

import argparse
import sys


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    diagnosis = commands.add_parser(
        "diagnosis", help="measure how well failures are named, on second implementations (needs torch)"
    )
    diagnosis.add_argument("names", nargs="*", metavar="NAME", help="mutants by name; all where left out")
    diagnosis.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    diagnosis.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    diagnosis.add_argument("--runs", action="store_true", help="list runs that match wrong formulas alone")
    diagnosis.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what was measured; 0 where it is good, 1 where it is not or a name is unknown."""
    from conformance.mutants_again._measure import good, measure, table

    found = measure(options.names, device=options.device, jobs=options.jobs, told=_progress)
    if options.runs:
        for one in found:
            for line in one.alone_in_runs:
                print(f"{one.number:03d} {one.mutant} ({one.breaks}) {line}")
    print(table(found))
    return 0 if good(found) else 1


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
