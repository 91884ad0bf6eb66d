"""`python -m conformance score`: what the suite catches, names and accuses, measured on itself."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.matrix.lines import Matrix

_EXAMPLES = """
  python -m conformance score                                    each mutant until it fails: the quick score
  python -m conformance score --full --jobs 16 --limit 540       the whole matrix, for nine minutes
  python -m conformance score --resume rn-reports/score-X.jsonl  what it still lacks
  python -m conformance score --tell a.jsonl b.jsonl --document  its numbers, into docs/score.md
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    score = commands.add_parser(
        "score", help="put the suite's own wrong and right implementations to it (needs torch)",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    score.add_argument("names", nargs="*", metavar="mutant:NAME|variant:NAME", help="all where left out")
    score.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    score.add_argument("--jobs", type=_at_least_one, default=2, metavar="N", help="processes (2)")
    score.add_argument(
        "--rotation", type=int, metavar="N", help="quick: the runs that right variants are asked (the day's)"
    )
    kind = score.add_mutually_exclusive_group()
    kind.add_argument("--full", action="store_true", help="ask everything, into a matrix file")
    kind.add_argument("--resume", type=Path, metavar="FILE", help="ask what a matrix file still lacks")
    kind.add_argument("--tell", nargs="+", type=Path, metavar="FILE", help="the numbers of matrix files")
    score.add_argument("-o", "--out", type=Path, metavar="FILE", help="--full: the matrix file")
    score.add_argument("--shard", type=_part, metavar="i/n", help="--full: the i-th of n files (1/1)")
    score.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="--full: only these runs; makes a sample"
    )
    score.add_argument(
        "--limit", type=float, metavar="SECONDS",
        help="--full, --resume: start no other implementation after that",
    )  # fmt: skip
    score.add_argument(
        "--document", nargs="?", type=Path, const=Path("docs/score.md"), metavar="FILE",
        help="--tell: put the numbers of a whole matrix there (docs/score.md)",
    )  # fmt: skip
    score.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the score; 0 where it is good, 1 where it is not, is unfinished, or an input cannot be used."""
    mistake = _mistake(options)
    if mistake:
        _progress(mistake)
        return 2
    if options.tell:
        return _tell(options.tell, options.document)
    if options.full or options.resume:
        return _record(options)
    return _quick(options)


_GOES_WITH = {
    "names": ("", "full"), "rotation": ("",), "out": ("full",), "shard": ("full",), "only": ("full",),
    "limit": ("full", "resume"), "document": ("tell",),
}  # fmt: skip
"""What may be given beside --full, --resume and --tell; "" is the quick score."""


def _mistake(options: argparse.Namespace) -> str:
    """What does not go together, in words; "" where all does."""
    kind = next((k for k in ("full", "resume", "tell") if getattr(options, k)), "")
    for name, kinds in _GOES_WITH.items():
        given = getattr(options, name)
        if given is not None and given != [] and kind not in kinds:
            word = "a name" if name == "names" else f"--{name}"
            return f"{word} goes with {' or '.join(f'--{k}' if k else 'the quick score' for k in kinds)}"
    return ""


def _quick(options: argparse.Namespace) -> int:
    from conformance.matrix.quick import quick
    from conformance.matrix.rotation import today
    from conformance.score import good, table

    rotation = today() if options.rotation is None else options.rotation
    scores = quick(options.names, rotation=rotation, device=options.device, jobs=options.jobs, told=_progress)
    print(table(scores))
    print(f"right variants asked in rotation {rotation}: --rotation={rotation} repeats it")
    return 0 if good(scores) else 1


def _record(options: argparse.Namespace) -> int:
    from conformance.matrix.recording import begin, resume

    path = options.resume or options.out or _new_file()
    if options.full:
        begin(
            path, names=options.names, device=options.device, only=options.only, part=options.shard or (1, 1)
        )
    _progress(f"recording {path}")
    try:
        left = resume(
            path, device=options.device, jobs=options.jobs, limit=options.limit or 0.0, told=_progress
        )
    except KeyboardInterrupt:
        _progress(f"interrupted; continue with: python -m conformance score --resume {path}")
        return 130
    code = _tell([path], None)
    if left:
        _progress(f"{len(left)} still to be asked: python -m conformance score --resume {path}")
    return 1 if left else code


def _new_file() -> Path:
    return Path("rn-reports") / f"score-{time.strftime('%Y-%m-%dT%H-%M-%S')}.jsonl"


def _tell(paths: list[Path], document: Path | None) -> int:
    from conformance.matrix.completeness import lacking
    from conformance.matrix.document import publish, text
    from conformance.matrix.lines import joined, read
    from conformance.matrix.telling import Told

    matrix: Matrix = joined([(path.name, read(path)) for path in paths])
    told, missing = Told(matrix), lacking(matrix)
    print(text(told, missing))
    if document is not None:
        publish(told, missing, document)
        _progress(f"written: {document}")
    return 0 if told.good else 1


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} should be 1 or more")
    return number


def _part(text: str) -> tuple[int, int]:
    """i/n as two numbers, 1 <= i <= n."""
    first, _, second = text.partition("/")
    if not (first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
        raise argparse.ArgumentTypeError(f"{text!r} should be i/n with 1 <= i <= n, such as 1/4")
    return int(first), int(second)
