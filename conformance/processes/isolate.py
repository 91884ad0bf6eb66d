"""One worker process per implementation: start it, talk to it, notice when it dies or hangs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.processes.protocol import Arena, send

_START = (
    "import sys; sys.path[:1] = [sys.argv[1]]; from conformance.processes.worker import main; "
    "main(*map(int, sys.argv[2:5]), sys.argv[5], sys.argv[6:])"
)
_TAIL_BYTES = 4000


@dataclass
class WorkerDiedError(Exception):
    """The worker ended or was ended. kind: `crash` (it died by itself) or `hang` (it was killed)."""

    kind: str
    detail: str
    output: str

    def __str__(self) -> str:
        return self.detail


class Worker:
    """A child process that has imported the implementation. Not thread safe: one request at a time."""

    def __init__(self, arena: Arena, device: str, paths: Sequence[str], env: dict[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker: see close
        request_read, self._requests = os.pipe()
        self._replies, reply_write = os.pipe()
        package_root = str(Path(__file__).resolve().parents[2])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, package_root,
             str(request_read), str(reply_write), str(arena.fd), device, *paths],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            pass_fds=(request_read, reply_write, arena.fd),
            env={**os.environ, **env}, start_new_session=True,
        )  # fmt: skip
        os.close(request_read)
        os.close(reply_write)
        self._pending = b""

    def ask(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Send a request and wait for its reply; raises WorkerDiedError."""
        self.post(message)
        return self.wait(timeout)

    def post(self, message: Mapping[str, Any]) -> None:
        """Send a request. Where the process is gone already, `wait` says so."""
        with contextlib.suppress(BrokenPipeError):
            send(self._requests, message)

    def wait(self, timeout: float) -> dict[str, Any]:
        """The reply to the request that was posted; raises WorkerDiedError."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._replies], [], [], max(left, 0.0))
            if not ready:
                self.kill()
                what = f"no answer within {timeout:.0f} s; the process was killed"
                raise WorkerDiedError("hang", what, self._output())
            chunk = os.read(self._replies, 1 << 20)
            if not chunk:
                raise self._died()
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        try:
            return json.loads(line)
        except ValueError:
            self.kill()
            raise WorkerDiedError("crash", "the process wrote over the suite's pipe", "") from None

    def _died(self) -> WorkerDiedError:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
            return WorkerDiedError(
                "crash", "the process closed the suite's pipe and lived on", self._output()
            )
        self.kill()  # whatever it started and left behind
        if code < 0:
            try:
                how = f"was killed by {signal.Signals(-code).name}"
            except ValueError:
                how = f"was killed by signal {-code}"
        else:
            how = f"ended with exit code {code}"
        return WorkerDiedError("crash", f"the process {how}", self._output())

    def _output(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _TAIL_BYTES))
        return self._log.read().decode(errors="replace")

    def kill(self) -> None:
        """End the process and everything in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the worker and free what belongs to it. Idempotent."""
        if self._log.closed:
            return
        self.kill()
        os.close(self._requests)
        os.close(self._replies)
        self._log.close()
