"""The workers of one pytest process: the one at work, and after a crash one more that is loading already.

Importing a vendor's package can take ten seconds. An implementation that crashes on many runs would pay that
each time; so once one has crashed, the next replacement starts while the present one still works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.processes.isolate import Worker, WorkerDiedError
from conformance.processes.protocol import Arena

LOAD_TIMEOUT = 300.0


class Crew:
    """Workers for one implementation at a time.

    threads: of each worker's CPU arithmetic; 0 leaves torch's default.
    """

    def __init__(self, arena: Arena, device: str, paths: Sequence[str], threads: int = 0) -> None:
        self._arena, self._device, self._paths = arena, device, tuple(paths)
        self._env = {"OMP_NUM_THREADS": str(threads)} if threads else {}
        self._spec: str | None = None
        self._at_work: Worker | None = None
        self._next: Worker | None = None
        self._lost = 0

    def ask_once(self, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Put one request to a process of its own; raises WorkerDiedError."""
        worker = self._start()
        try:
            return worker.ask(request, timeout)
        finally:
            worker.close()

    def hire(self, spec: str, load: Mapping[str, Any]) -> dict[str, Any]:
        """Start the worker for `spec` and give what it says of the implementation; raises WorkerDiedError."""
        self.close()
        self._spec, self._lost = spec, 0
        self._at_work = self._loading(load)
        try:
            return self._at_work.wait(LOAD_TIMEOUT)
        except WorkerDiedError:
            self.lose()
            raise

    def ready(self, spec: str, load: Mapping[str, Any]) -> Worker:
        """The worker that has loaded `spec`; raises WorkerDiedError where it cannot be loaded again."""
        if self._spec != spec:
            self.close()
            self._spec, self._lost = spec, 0
        if self._at_work is None:
            self._at_work, self._next = self._next or self._loading(load), None
            try:
                self._at_work.wait(LOAD_TIMEOUT)
            except WorkerDiedError:
                self.lose()
                raise
            if self._lost:
                self._next = self._loading(load)
        return self._at_work

    def lose(self) -> None:
        """The worker at work has died, or must not be used again."""
        self._lost += 1
        if self._at_work is not None:
            self._at_work.close()
        self._at_work = None

    def close(self) -> None:
        """End all workers."""
        for worker in (self._at_work, self._next):
            if worker is not None:
                worker.close()
        self._at_work = self._next = self._spec = None

    def _loading(self, load: Mapping[str, Any]) -> Worker:
        worker = self._start()
        worker.post(load)
        return worker

    def _start(self) -> Worker:
        return Worker(self._arena, self._device, self._paths, self._env)
