"""Workers that start at once: forked from a process that has imported torch and Triton and nothing else.

A worker of the suite is a fresh interpreter, and importing torch takes it seconds. Here a few hundred mutants
are asked a few small runs each, so that the imports would be nearly all of the time. A fork server of
`multiprocessing` imports them once; every mutant still gets a process of its own, with its pipes, its
session and its log, and the server itself imports no mutant and calls nothing. Linux and the CPU only: a
forked process cannot use a GPU that its parent has used, and elsewhere a fork does not survive what the
imports start.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import DupFd
from typing import Any

from conformance.bench import Bench
from conformance.model import MODES, Requirement
from conformance.plan import Machine
from conformance.processes.crew import Crew
from conformance.processes.isolate import Worker
from conformance.processes.protocol import Arena


class QuickBench(Bench):
    """A bench in grade strict whose workers are forked where they can be. Close it when done.

    trains: whether training runs will be asked. Without them no trial calls find out whether there are
    gradients, which take an interpreted kernel longer than a small run.
    """

    def __init__(
        self, machine: Machine, requirements: Mapping[str, Requirement], timeout: float, trains: bool
    ) -> None:
        super().__init__(machine, "strict", requirements, timeout=timeout, paths=[], threads=1)
        self._trains = trains
        if sys.platform == "linux" and machine.device == "cpu":
            self._crew = _ForkingCrew(self._arena, machine.device, [], threads=1)

    def _load_request(self, spec: str, probe: bool) -> dict[str, object]:
        request = super()._load_request(spec, probe)
        return request if self._trains else {**request, "differentiable": dict.fromkeys(MODES, False)}


class _ForkingCrew(Crew):
    def _start(self) -> Worker:
        return _ForkedWorker(self._arena, self._device, self._paths)


class _ForkedWorker(Worker):
    def __init__(self, arena: Arena, device: str, paths: Sequence[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker: see Worker.close
        request_read, self._requests = os.pipe()
        self._replies, reply_write = os.pipe()
        fds = [request_read, reply_write, arena.fd, self._log.fileno()]
        self._process = _Forked(fds, device, paths)  # type: ignore[assignment]  # as much of Popen as is used
        os.close(request_read)
        os.close(reply_write)
        self._pending = b""

    def kill(self) -> None:
        """End the process and everything in its group; also one so young that it leads no group yet."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        super().kill()


class _Forked:
    """What `Worker` uses of a Popen, of a child of the fork server."""

    def __init__(self, fds: Sequence[int], device: str, paths: Sequence[str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["conformance.adequacy.preload"])
        # Made while the process is being started: only then may descriptors be sent along.
        self._child = context.Process(
            target=_work, args=(_Descriptors(fds), device, list(paths)), daemon=True
        )
        self._child.start()
        self.pid = self._child.pid

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal; raises TimeoutExpired."""
        self._child.join(timeout)
        if self._child.exitcode is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
        return self._child.exitcode


class _Descriptors:
    """File descriptors that arrive in the child under numbers of its own."""

    def __init__(self, fds: Sequence[int]) -> None:
        self._fds = fds

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, tuple(DupFd(fd) for fd in self._fds)


def _received(*sent: Any) -> list[int]:
    return [one.detach() for one in sent]


def _work(fds: list[int], device: str, paths: list[str]) -> None:
    os.setsid()
    request_read, reply_write, arena, log = fds
    for stream in (1, 2):
        os.dup2(log, stream)
    from conformance.processes.worker import main

    main(request_read, reply_write, arena, device, paths)
