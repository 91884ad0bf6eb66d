"""Global state that an implementation must leave alone, and its repair.

Two kinds. Changing the first would change what any program sees next (default dtype, grad mode, a replaced
comparison function or timer): reported, and a failure of HONEST-STATE. The second is put back without a word,
because honest libraries touch it too (environment variables, working directory, thread count, RNG state).
Take the snapshot before the implementation is imported.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import numpy as np
import torch

_WATCHED = (
    (torch, ("allclose", "equal", "isclose", "empty", "empty_like", "zeros", "from_numpy", "frombuffer")),
    (torch.testing, ("assert_close",)),
    (torch.Tensor, ("copy_", "cpu", "numpy", "eq", "__eq__", "double", "to", "backward", "requires_grad_")),
    (torch.autograd, ("grad", "backward")),
    (torch.cuda, ("synchronize", "Event", "Stream", "current_stream")),
    (torch.cuda.Event, ("record", "elapsed_time", "synchronize")),
    (np, ("allclose", "isclose", "array_equal", "frombuffer", "copyto")),
    (np.testing, ("assert_allclose", "assert_array_equal")),
    (time, ("time", "perf_counter", "perf_counter_ns", "monotonic", "time_ns", "sleep")),
)  # fmt: skip


def _functions() -> dict[str, tuple[Any, str, Any]]:
    found = {}
    for owner, names in _WATCHED:
        for name in names:
            if hasattr(owner, name):
                label = f"{getattr(owner, '__module__', None) or ''}.{owner.__name__}".lstrip(".")
                if label.startswith(("torch.torch", "builtins.")):
                    label = label.split(".", 1)[1]
                found[f"{label}.{name}"] = (owner, name, getattr(owner, name))
    return found


def _modes() -> dict[str, Any]:
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device() if hasattr(torch, "get_default_device") else None,
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the default tensor type of factories": torch.empty(0).dtype,
    }  # fmt: skip


class Watch:
    """A snapshot of the state; `drift()` says what changed since, and puts everything back."""

    def __init__(self) -> None:
        self._functions = _functions()
        self._modes = _modes()
        self._quiet = self._read_quiet()

    @staticmethod
    def _read_quiet() -> dict[str, Any]:
        return {
            "cwd": os.getcwd(),
            "environ": dict(os.environ),
            "threads": torch.get_num_threads(),
            "rng": torch.get_rng_state(),
            "python_rng": random.getstate(),
            "numpy_rng": np.random.get_state(),
        }

    def drift(self) -> list[str]:
        """Sentences about watched state that changed; all of it is restored on return."""
        found = []
        for label, (owner, name, original) in self._functions.items():
            if getattr(owner, name, None) is not original:
                found.append(f"{label} was replaced")
                setattr(owner, name, original)
        now = _modes()
        for label, before in self._modes.items():
            if now[label] != before:
                found.append(f"{label} was changed from {before} to {now[label]}")
        self._restore()
        return found

    def _restore(self) -> None:
        torch.set_default_dtype(self._modes["the default dtype"])
        if self._modes["the default device"] != getattr(torch, "get_default_device", lambda: None)():
            torch.set_default_device(self._modes["the default device"])
        torch.set_grad_enabled(self._modes["grad mode"])
        if torch.are_deterministic_algorithms_enabled() != self._modes["deterministic algorithms"]:
            torch.use_deterministic_algorithms(self._modes["deterministic algorithms"])
        quiet = self._quiet
        os.chdir(quiet["cwd"])
        for name in set(os.environ) - set(quiet["environ"]):
            del os.environ[name]
        os.environ.update(quiet["environ"])
        if torch.get_num_threads() != quiet["threads"]:
            torch.set_num_threads(quiet["threads"])
        torch.set_rng_state(quiet["rng"])
        random.setstate(quiet["python_rng"])
        np.random.set_state(quiet["numpy_rng"])

    def accept_environment(self) -> None:
        """Keep what importing the implementation did to the quiet state: its own process, own business."""
        self._quiet = self._read_quiet()
