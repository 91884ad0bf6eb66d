"""The command line for what needs neither pytest nor torch: reports, merging, and what is asked.

    python -m conformance report a.jsonl b.jsonl -o site/
    python -m conformance merge 1.jsonl 2.jsonl -o merged.jsonl
    python -m conformance requirements
    python -m conformance cases --profile=smoke
    python -m conformance explain 'eps/near[residual,bf16,h=4097]'
    python -m conformance score mutant:eps_outside
    python -m conformance minimise results.jsonl 'eps/near[none,fp32,eps=1e-3,x.scale=0.032]'
    python -m conformance adequacy mycases.yaml

Certifying itself is pytest's: `pytest --impl=mypkg:fused_add_rms_norm`. Exit codes: 0 done; 1 an
input cannot be used, and the message says why; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from conformance import __version__, load
from conformance.commands import add_all
from conformance.errors import ConformanceError
from conformance.model import GRADIENT_OF, PROFILES, SHORT_DTYPE, UPSTREAM_OF, Run
from conformance.reporting.columns import side_by_side
from conformance.reporting.merge import merge, write
from conformance.reporting.page import write_page
from conformance.reporting.results import read
from conformance.reporting.showing import counted, number, reproduce, visible
from conformance.reporting.summary import markdown, terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; see the module's text."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except ConformanceError as error:
        return _failed(str(error))
    except BrokenPipeError:  # the reader, e.g. head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _failed(f"{name}{error.strerror or error}")
    return code


def _failed(message: str) -> int:
    first, _, rest = visible(message, lines=True).partition("\n")
    print(f"error: {first}", file=sys.stderr)
    if rest:
        print(textwrap.indent(rest, "  "), file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description="Reports and questions of the RMSNorm conformance suite. "
        "To certify an implementation, use pytest --impl=module:function.",
    )
    parser.add_argument("--version", action="version", version=f"rmsnorm-conformance {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    report = commands.add_parser("report", help="make a page and a Markdown summary of result files")
    report.add_argument("files", nargs="+", type=Path, metavar="RESULTS.jsonl")
    report.add_argument("-o", "--out", type=Path, required=True, metavar="FOLDER")
    report.add_argument(
        "--partial",
        action="store_true",
        help="show a file without a footer too; it certifies nothing",
    )
    report.set_defaults(run=_report)

    join = commands.add_parser("merge", help="join shards, or runs of several implementations")
    join.add_argument("files", nargs="+", type=Path, metavar="RESULTS.jsonl")
    join.add_argument("-o", "--out", type=Path, required=True, metavar="MERGED.jsonl")
    join.set_defaults(run=_merge)

    required = commands.add_parser("requirements", help="list what an implementation must do")
    required.set_defaults(run=_requirements)

    cases = commands.add_parser("cases", help="list the ids of the runs, one a line")
    cases.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="case files or folders; the bundled ones",
    )
    cases.add_argument("--profile", choices=PROFILES, help="only the runs of one profile")
    cases.set_defaults(run=_cases)

    explain = commands.add_parser("explain", help="say what one run or requirement asks, and why")
    explain.add_argument("id", metavar="RUNID")
    explain.add_argument(
        "--cases", action="append", default=[], type=Path, metavar="PATH", help="own case files"
    )
    explain.set_defaults(run=_explain)

    add_all(commands)
    return parser


def _report(options: argparse.Namespace) -> int:
    known = load.requirements()
    results = [read(path, partial=options.partial) for path in options.files]
    shown = side_by_side(results, known)
    page = write_page(shown, options.out / "index.html", known)
    (options.out / "summary.md").write_text(markdown(shown, requirements=known), "utf-8", newline="\n")
    print(terminal(shown, sys.stdout.isatty(), requirements=known, page=page))
    return 0


def _merge(options: argparse.Namespace) -> int:
    merged = merge([read(path) for path in options.files], load.requirements())
    write(options.out, merged)
    certified = sum(one.certified for one in merged.implementations)
    verdicts = counted(len(merged.verdicts), "verdict")
    implementations = counted(len(merged.implementations), "implementation")
    print(f"{verdicts} of {implementations}, {certified} certified: {visible(str(options.out))}")
    return 0


def _requirements(options: argparse.Namespace) -> int:
    for one in sorted(load.requirements().values(), key=lambda r: (r.rank, r.id)):
        needs = "" if one.needs == "cpu" else f" [{one.needs}]"
        print(f"{one.id}  ({one.level}, rank {one.rank}){needs}")
        print(textwrap.fill(one.text, 100, initial_indent="    ", subsequent_indent="    "))
    return 0


def _cases(options: argparse.Namespace) -> int:
    runs = _runs(options.paths or [load.bundled()])
    for run in runs:
        if options.profile is None or options.profile in run.profiles:
            print(visible(run.id))
    return 0


def _runs(paths: Sequence[Path]) -> list[Run]:
    return [run for case in load.load(paths) for run in case.runs]


def _explain(options: argparse.Namespace) -> int:
    known = load.requirements()
    if options.id in known:
        one = known[options.id]
        _line(one.id, f"{one.level}, rank {one.rank}: {one.text}")
        _line("why", one.why)
        _line("source", one.source)
        _line("asked by", _askers(one.id))
        return 0
    runs = {run.id: run for run in _runs([load.bundled(), *options.cases])}
    run = runs.get(options.id)
    if run is None:
        near = get_close_matches(options.id, [*runs, *known], n=3, cutoff=0.5)
        near = near or [id_ for id_ in runs if id_.startswith(options.id.partition("[")[0])][:3]
        hint = (
            f"Did you mean {' or '.join(near)}?" if near else "`python -m conformance cases` lists the ids."
        )
        raise ConformanceError(f"there is no run or requirement {options.id!r}", hint)
    _line(run.id, run.about)
    for label, text in _facts(run):
        _line(label, text)
    for id_ in run.requirements:
        one = known[id_]
        _line(id_, f"{one.text} Why: {one.why}")
    print(reproduce("module:function", run.id))
    return 0


def _askers(requirement: str) -> str:
    found = [
        case.id
        for case in load.load([load.bundled()])
        if any(requirement in r.requirements for r in case.runs)
    ]
    return ", ".join(found) or "no bundled case"


def _facts(run: Run) -> list[tuple[str, str]]:
    dtypes = ", ".join(f"{name} {SHORT_DTYPE.get(dtype, dtype)}" for name, dtype in run.dtypes.items())
    layouts = ", ".join(f"{name} {layout}" for name, layout in run.layouts.items())
    fills = "; ".join(f"{name}: {_fill(fill)}" for name, fill in run.fills.items())
    given = "left out" if run.eps is None else number(run.eps)
    facts = [
        ("file", run.file),
        ("mode", run.mode),
        ("shape", " x ".join(map(str, run.shape))),
        ("dtypes", dtypes),
        ("eps", given),
        ("scenario", run.scenario if run.fault is None else f"{run.scenario}: {run.fault}"),
        ("layouts", layouts or "all contiguous"),
        ("fills", fills),
        *_training(run),
        (
            "weight",
            "" if run.weight_offset is None else f"weight_offset {number(run.weight_offset)}",
        ),
        ("out", "an out tensor is passed" if run.out else ""),
        ("profiles", ", ".join(run.profiles) + (", core" if run.core else "")),
        ("needs", ", ".join(run.needs)),
        ("hunts", ", ".join(run.flags)),
    ]
    return [(label, text) for label, text in facts if text]


def _training(run: Run) -> list[tuple[str, str]]:
    """What a training run asks for, and the gradients that arrive; none of it for a forward run."""
    if not run.trains:
        return []
    arriving = [(UPSTREAM_OF[name], name) for name in run.upstream]
    upstream = [f"{d} ({SHORT_DTYPE.get(t := run.dtype_of(d), t)}) of {name}" for d, name in arriving]
    wanted = [f"{GRADIENT_OF[name]} of {name}" for name in run.gradients]
    constants = [name for name in run.dtypes if name in GRADIENT_OF and name not in run.gradients]
    return [
        ("gradients", ", ".join(wanted)),
        ("constants", ", ".join(constants)),
        ("arriving", ", ".join(upstream)),
    ]


def _fill(fill: object) -> str:
    """Give only what differs from the default of a fill."""
    shown = {k: v for k, v in vars(fill).items() if v != getattr(type(fill), k)}
    return ", ".join(f"{k} {v}" for k, v in {"kind": vars(fill)["kind"], **shown}.items())


def _line(label: str, text: str) -> None:
    first = f"{visible(label)}: "
    print(textwrap.fill(visible(text), 100, initial_indent=first, subsequent_indent="    "))
