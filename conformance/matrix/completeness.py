"""Whether a matrix is the whole one: what is less is a sample, and changes no document. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance import __version__, load
from conformance.matrix.lines import Block, Matrix
from conformance.matrix.names import source, visible
from conformance.model import Run


def lacking(matrix: Matrix) -> list[str]:
    """What makes it a sample, in words; [] for a whole one of the suite as it is here and now."""
    cases = load.load([load.bundled()])
    header = matrix.header
    found = []
    if header.only:
        found.append(f"only the runs {' '.join(header.only)} were asked")
    if header.suite != __version__:
        found.append(f"it is of suite {header.suite}, and this is {__version__}")
    if header.cases_digest != load.cases_digest(cases):
        found.append("the cases are not those of this suite (another cases digest)")
    wanted = visible(header.device)
    found += _counted("not asked", [n for n in wanted if n not in matrix.blocks])
    found += _counted("not of this suite", [n for n in matrix.blocks if n not in wanted])
    shared = [n for n in wanted if n in matrix.blocks]
    found += _counted("changed since", [n for n in shared if matrix.blocks[n].closing.source != source(n)])
    found += _counted(
        "broken in the suite", [n for n in shared if matrix.blocks[n].closing.counts.get("broken")]
    )
    if not header.only:
        short = _short_of_runs([matrix.blocks[n] for n in shared], [r for case in cases for r in case.runs])
        found += _counted("not asked every run", short)
    return found


def _counted(what: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [f"{len(names)} {what}: {', '.join(names[:3])}{more}"]


def _short_of_runs(blocks: Iterable[Block], runs: Sequence[Run]) -> list[str]:
    """The names that were not asked every run of the default profile that their modes claim, each once."""
    wanted: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    found = []
    for closing, lines in ((b.closing, b.runs) for b in blocks):
        claimed = (closing.modes, closing.trains)
        if claimed not in wanted:
            wanted[claimed] = sorted(r.id for r in runs if _claims(r, *claimed))
        # What cannot be loaded claims nothing and is asked nothing.
        if sorted(r.run for r in lines) != wanted[claimed]:
            found.append(closing.spec)
    return found


def _claims(run: Run, modes: Sequence[str], trains: Sequence[str]) -> bool:
    """Whether an implementation of these modes is asked a run in the default profile; see plan.selected."""
    asked = {"inference", "training"} & set(run.profiles)
    return bool(asked) and run.mode in modes and (not run.trains or run.mode in trains)
