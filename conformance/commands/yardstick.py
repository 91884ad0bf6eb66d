"""`python -m conformance yardstick`: this suite's mutants under the rules of other suites."""

from __future__ import annotations

import argparse
import sys


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    yardstick = commands.add_parser(
        "yardstick", help="score re-implemented rules of other suites over the mutants (needs torch)"
    )
    yardstick.add_argument("names", nargs="*", metavar="mutant:NAME|variant:NAME", help="all where left out")
    yardstick.add_argument("--suites", default="", metavar="A,B", help="vllm, liger, flaggems (all)")
    yardstick.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    yardstick.add_argument(
        "--elements", type=int, metavar="N", help="leave out larger shapes of x; 0 for none (each its own)"
    )
    yardstick.add_argument(
        "--missed", action="store_true", help="list the mutants that no rule objects to as well"
    )
    yardstick.add_argument(
        "--with-own", action="store_true", help="measure this suite too, as the command score does (slow)"
    )
    yardstick.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the tables; 0 once measured. Raises ConformanceError for an unknown name or suite."""
    from conformance.yardstick.measure import measure
    from conformance.yardstick.tables import missed, rejected, tables

    suites = [name for name in options.suites.split(",") if name]
    found = measure(options.names, suites, elements=options.elements, jobs=options.jobs, told=_progress)
    own = None
    if options.with_own:
        from conformance.matrix.quick import quick
        from conformance.matrix.rotation import today

        names = [m.spec for m in found]
        own = quick(names, rotation=today(), device="cpu", jobs=options.jobs, told=_progress)
    print(tables(found, suites, elements=options.elements, own=own))
    details = [rejected(found), missed(found) if options.missed else ""]
    print("".join(f"\n{text}\n" for text in details if text), end="")
    return 0


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
