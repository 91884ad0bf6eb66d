"""pytest-xdist: which process runs what, and with how many threads.

A process that changes implementation starts a worker anew, which costs seconds. So each implementation's runs
stay on as few processes as keep all of them busy. The verdicts do not depend on it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from typing import Any

from xdist.scheduler import LoadScopeScheduling

from conformance.model import Run


def threads_each(worker_input: dict[str, Any]) -> int:
    """CPU threads for one of the processes, so that together they use each core once."""
    return max(1, (os.cpu_count() or 1) // int(worker_input["workercount"]))


class ByImplementation(LoadScopeScheduling):
    """Hands out an implementation's runs in parts; other tests file by file.

    Runs of one fusion mode, dtypes and width stay together: a kernel is compiled, and tuned, for these, and
    two processes would both do it. `keys` maps a node id to words for that.
    """

    def __init__(self, config: Any, log: Any, implementations: int, keys: Mapping[str, str]) -> None:
        super().__init__(config, log)
        processes = len(config.getvalue("tx") or ["popen"])
        # More parts than there are processes to share them, so that no long part is left at the end.
        shared = max(1, -(-processes // max(1, implementations)))
        self._shards = 1 if shared == 1 else 3 * shared
        self._keys = keys

    def _split_scope(self, nodeid: str) -> str:
        if nodeid not in self._keys:
            return super()._split_scope(nodeid)
        key = self._keys[nodeid]
        return f"{nodeid.rpartition('@')[2]}#{zlib.crc32(key.encode()) % self._shards}"


def compile_key(run: Run) -> str:
    """What a kernel is compiled for, in words; a backward is compiled beside its forward."""
    training = " trains" if run.trains else ""
    return f"{run.mode} {sorted(run.dtypes.items())} {run.hidden_size}{training}"
