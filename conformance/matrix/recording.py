"""Writes a matrix file: implementations in parallel, each block when it is done. Imports torch."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import FrameType

from conformance import __version__, load
from conformance.bench import this_machine
from conformance.environment import environment
from conformance.errors import HarnessBroken
from conformance.matrix.asking import ask_all
from conformance.matrix.lines import (
    SAME,
    BadMatrix,
    Block,
    Header,
    Matrix,
    Session,
    encode,
    encode_block,
    read,
)
from conformance.matrix.names import chosen, known, longest_first, shard, source, visible

Told = Callable[[str], None]


def header(names: Sequence[str], *, device: str, only: Sequence[str] = (), part: str = "1/1") -> Header:
    """The header of a matrix that is begun now on this machine."""
    machine = this_machine(device)
    return Header(
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), suite=__version__,
        cases_digest=load.cases_digest(load.load([load.bundled()])), device=machine.name,
        names=tuple(names), only=tuple(only), shard=part, **environment(machine),
    )  # fmt: skip


def begin(
    path: Path, *, names: Sequence[str] = (), device: str = "auto", only: Sequence[str] = (),
    part: tuple[int, int] = (1, 1),
) -> None:  # fmt: skip
    """Write the header of a new matrix file.

    names: mutant:NAME or variant:NAME; all that this machine can show for none. part: (i, n) for the i-th of
    n files that share them out.

    Raises:
        NoSuchImplementation: a name is unknown.
        BadMatrix: the file exists, or the part is empty.
    """
    planned = shard(chosen(names, this_machine(device).name), *part)
    if not planned:
        raise BadMatrix("there is nothing to ask", "Give fewer shards, or names that this machine can show.")
    first = encode(header(planned, device=device, only=only, part="{}/{}".format(*part)))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(first)
    except FileExistsError as error:
        hint = "Continue it with --resume, or give another file with -o."
        raise BadMatrix(f"{path.name} exists already", hint) from error


def finished(matrix: Matrix) -> set[str]:
    """What need not be asked again: its source is as it was, and no run of it broke in the suite."""
    exist = known()
    return {
        spec
        for spec, block in matrix.blocks.items()
        if spec in exist and block.closing.source == source(spec) and not block.closing.counts.get("broken")
    }


def resume(
    path: Path, *, device: str = "auto", jobs: int = 2, limit: float = 0.0, told: Told = lambda line: None
) -> list[str]:
    """Ask what a matrix file still lacks, and write it as it comes.

    limit: seconds after which no other implementation is started; those at work are waited for. 0: none.
    told: gets a line of progress after each.

    Returns:
        The names that are still to be asked: [] where the file is finished.

    Raises:
        BadMatrix: it was begun with other cases, or on another machine, or with another version.
        HarnessBroken: a process died; what is finished is in the file.
    """
    started = time.monotonic()
    matrix = read(path)
    _same_questions(path.name, matrix.header, device)
    breaks, shown = known(), set(visible(matrix.header.device))
    done = finished(matrix)
    todo = longest_first(n for n in matrix.header.names if n not in done and n in shown)
    with path.open("r+b") as file:
        file.truncate(matrix.end)
        file.seek(0, os.SEEK_END)
        count = 0
        try:
            work = [(spec, breaks[spec], device, matrix.header.only) for spec in todo]
            for block in _blocks(work, jobs, started + limit if limit else None):
                file.write(encode_block(block).encode())
                file.flush()
                count += 1
                todo.remove(block.closing.spec)
                told(f"{count}/{len(work)} {_progress(block)}")
        finally:
            file.write(encode(Session(round(time.monotonic() - started, 1), jobs)).encode())
    return todo


def _same_questions(name: str, begun: Header, device: str) -> None:
    now = header(begun.names, device=device, only=begun.only)
    for key in SAME:
        if getattr(begun, key) != getattr(now, key):
            raise BadMatrix(
                f"{name} was begun with {key} {getattr(begun, key)!r}, and here it is {getattr(now, key)!r}",
                "A matrix is made of one suite on one machine: begin a new file.",
            )


def _progress(block: Block) -> str:
    closing = block.closing
    counts = ", ".join(f"{n} {verdict}" for verdict, n in closing.counts.items()) or closing.error
    named = f", named {closing.named[0]}" if closing.named else ""
    return f"{closing.spec}: {counts}{named}, {closing.seconds:.0f} s"


def _blocks(
    work: Sequence[tuple[str, str, str, tuple[str, ...]]], jobs: int, stop_at: float | None
) -> Iterator[Block]:
    """The blocks as they are done, at most `jobs` at work. An interrupted process takes its work with it."""
    waiting, running = list(reversed(work)), set[Future[Block]]()
    threads = max(1, (os.cpu_count() or 1) // jobs)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ends_when_told)
    try:
        while waiting or running:
            if stop_at is not None and time.monotonic() >= stop_at:
                waiting.clear()
            while waiting and len(running) < jobs:
                running.add(pool.submit(ask_all, *waiting.pop(), threads))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for job in done:
                yield job.result()
    except BrokenProcessPool as error:
        hint = (
            "What is finished is in the file: continue with --resume, with fewer --jobs if memory was short."
        )
        raise HarnessBroken("a process of the score died", hint) from error
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        with contextlib.suppress(Exception):
            pool.shutdown(wait=True, cancel_futures=True)


def _ends_when_told() -> None:
    """In a process of the pool: Ctrl-C is the parent's, whose SIGTERM ends it and the worker that it has."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    # A function, not SIG_IGN: what is ignored stays so in the implementation's process.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, leave)
