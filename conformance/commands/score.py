"""`python -m conformance score`: what the suite catches, names and accuses, measured on itself."""

from __future__ import annotations

import argparse
import sys

from conformance.errors import ConformanceError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    score = commands.add_parser(
        "score", help="put the suite's own wrong and right implementations to it (needs torch)"
    )
    score.add_argument("names", nargs="*", metavar="mutant:NAME|variant:NAME", help="all where left out")
    score.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    score.add_argument("--full", action="store_true", help="ask everything, not only until the first failure")
    score.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    score.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the score; 0 where it is good, 1 where it is not or a name is unknown."""
    from conformance.score import good, score, table

    try:
        scores = score(
            options.names, device=options.device, full=options.full, jobs=options.jobs, told=_progress
        )
    except ValueError as error:
        raise ConformanceError(str(error)) from error
    print(table(scores))
    return 0 if good(scores) else 1


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
