"""How the suite and a worker talk: one JSON object a line over a pipe, tensors through shared memory.

JSON, never pickle: what a worker sends is data from a process that ran foreign code. Tensor bytes travel
in an arena, an anonymous file that both processes map; messages hold offsets into it.
"""

from __future__ import annotations

import json
import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

ARENA_BYTES = 1 << 36  # address space, not memory: pages exist once touched


def encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def send(fd: int, message: Mapping[str, Any]) -> None:
    """Write one message; raises BrokenPipeError where the other side is gone."""
    data = memoryview(encode(message))
    while data:
        data = data[os.write(fd, data) :]


class Arena:
    """Shared memory as one flat byte array. `Arena()` makes one, `Arena(fd)` maps another process's."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = _anonymous_file() if fd is None else fd
        self._map = mmap.mmap(self.fd, ARENA_BYTES)
        self.bytes = np.frombuffer(self._map, np.uint8)

    def recycle(self) -> None:
        """Give the memory back to the system; every byte reads as zero afterwards."""
        os.ftruncate(self.fd, 0)
        os.ftruncate(self.fd, ARENA_BYTES)

    def close(self) -> None:
        """Idempotent: closing twice might close what another file got the number for."""
        if self.fd >= 0:
            os.close(self.fd)  # the mapping goes with the last array that looks into it
        self.fd = -1


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("rmsnorm-conformance")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, ARENA_BYTES)
    return fd


class Bump:
    """Hands out aligned pieces of an arena, one after the other."""

    def __init__(self, start: int = 0, alignment: int = 256) -> None:
        self.used = start
        self._alignment = alignment

    def take(self, nbytes: int) -> int:
        offset = self.used
        self.used += -(-nbytes // self._alignment) * self._alignment
        if self.used > ARENA_BYTES:
            raise MemoryError(f"a run needs more than {ARENA_BYTES} bytes of shared memory")
        return offset
