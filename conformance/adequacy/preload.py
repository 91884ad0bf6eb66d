"""What the fork server imports before the first fork: what every worker would import by itself."""

from __future__ import annotations

import os

os.environ.setdefault(
    "TRITON_INTERPRET", "1"
)  # read when Triton is imported; see conformance.processes.worker

import contextlib

from conformance.calling import targets
from conformance.processes import serve

with contextlib.suppress(ImportError):
    import triton
    import triton.language
    import triton.runtime.interpreter

__all__ = ["serve", "targets", "triton"]
