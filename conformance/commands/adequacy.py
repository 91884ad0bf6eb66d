"""`python -m conformance adequacy`: which mutants a user's cases cannot see, and what blinds the cases."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    adequacy = commands.add_parser(
        "adequacy", help="which wrong kernels your own cases cannot see, and why (needs torch)"
    )
    adequacy.add_argument(
        "cases", nargs="+", type=Path, metavar="CASES", help="case files, or folders of them"
    )
    adequacy.add_argument(
        "--mutant", action="append", default=[], metavar="NAME", help="only this mutant; may be repeated"
    )
    adequacy.add_argument("--json", type=Path, metavar="FILE", help="write the answer there as well")
    adequacy.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    adequacy.add_argument(
        "--limit", type=float, default=60.0, metavar="SECONDS",
        help="for your runs of one mutant, and again for the changed ones (60)",
    )  # fmt: skip
    adequacy.add_argument(
        "--thorough", action="store_true", help="try every property with every mutant that is not seen"
    )
    adequacy.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the answer; 0 where there is one. A case file that is wrong is told as an error."""
    from conformance import load
    from conformance.adequacy.measure import measure
    from conformance.adequacy.tell import as_json, text

    runs = [run for case in load.load(options.cases) for run in case.runs]
    found = measure(
        runs,
        options.mutant,
        jobs=options.jobs,
        limit=options.limit,
        thorough=options.thorough,
        told=_progress,
    )
    print(text(found))
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(found), indent=2) + "\n", "utf-8")
    return 0


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
