"""The process that imports and calls one implementation. It compares nothing and decides nothing.

Started by `conformance.processes.isolate`, one per implementation. Requests and replies are JSON lines on
two pipes of its own (standard output belongs to the implementation); tensor bytes travel in the arena.
Everything the worker needs of torch is bound before the implementation is imported.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any


def main(read_fd: int, write_fd: int, arena_fd: int, device: str, extra_path: list[str]) -> None:
    """Serve requests until the pipe closes."""
    if device == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the suite's to handle
    from conformance.processes.protocol import Arena, send
    from conformance.processes.serve import Server

    server = Server(Arena(arena_fd), device)
    # Last, so that no file of the user's folder can stand in for a module of the suite or of torch.
    sys.path[:0] = [entry for entry in extra_path if entry not in sys.path]
    with os.fdopen(read_fd, "rb") as requests:
        for line in requests:
            started = time.perf_counter()
            reply = server.answer(_decode(line))
            reply["seconds"] = time.perf_counter() - started
            send(write_fd, reply)
            if reply.get("poisoned"):
                os._exit(70)


def _decode(line: bytes) -> dict[str, Any]:
    import json

    return json.loads(line)
