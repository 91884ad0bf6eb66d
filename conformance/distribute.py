"""pytest-xdist: which process runs what, and with how many threads.

A process that changes implementation starts a worker anew, which costs seconds. So each implementation's runs
stay on as few processes as keep all of them busy. The verdicts do not depend on it.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

from xdist.scheduler import LoadScopeScheduling


def threads_each(worker_input: dict[str, Any]) -> int:
    """CPU threads for one of the processes, so that together they use each core once."""
    return max(1, (os.cpu_count() or 1) // int(worker_input["workercount"]))


class ByImplementation(LoadScopeScheduling):
    """Hands out the runs of one implementation in `shards` parts; other tests file by file."""

    def __init__(self, config: Any, log: Any, implementations: int) -> None:
        super().__init__(config, log)
        processes = len(config.getvalue("tx") or ["popen"])
        # Twice as many parts as there are processes to share them, so that no long part is left at the end.
        shared = max(1, -(-processes // max(1, implementations)))
        self._shards = 1 if shared == 1 else 2 * shared

    def _split_scope(self, nodeid: str) -> str:
        test, at, implementation = nodeid.rpartition("@")
        if not at:
            return super()._split_scope(nodeid)
        return f"{implementation}#{zlib.crc32(test.encode()) % self._shards}"
