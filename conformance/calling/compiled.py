"""Functions under torch.compile that prove it: each call has to run compiled code, or it raises.

torch.compile falls back to eager without a word, for a graph break or after too many recompilations. Here the
backend's result is counted, so an answer that compiled code did not give is never taken for one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from conformance.errors import NotCompiled

_LIMITS = {
    "recompile_limit": 4096, "accumulated_recompile_limit": 65536,
    "cache_size_limit": 4096, "accumulated_cache_size_limit": 65536,
}  # fmt: skip
"""A suite asks about more shapes, strides and dtypes than a model has; both the newer and the older names."""

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


class Compiled:
    """`function` under torch.compile, counting how often a compiled graph ran.

    Calling it returns what the compiled function returns, and raises NotCompiled where no compiled graph ran
    during the call.
    """

    def __init__(self, function: Callable[..., Any], backend: Backend | None = None) -> None:
        self.graphs = 0
        self.runs = 0
        self._backend = backend or _inductor
        self._name = getattr(function, "__name__", "function")
        self._compiled = torch.compile(function, backend=self._count, dynamic=True)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        before = self.runs
        with _many_recompilations():
            result = self._compiled(*positional, **named)
        if self.runs == before:
            raise NotCompiled(
                f"{self._name} returned without running compiled code: torch.compile fell back to eager",
                "Run with TORCH_LOGS=graph_breaks,recompiles to see why.",
            )
        return result

    def _count(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        compiled = self._backend(graph, examples)
        self.graphs += 1

        def counted(*arguments: Any) -> Any:
            self.runs += 1
            return compiled(*arguments)

        return counted


def _inductor(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx

    compiled: Any = compile_fx(graph, examples)
    return compiled


def _many_recompilations() -> AbstractContextManager[Any]:
    config = torch._dynamo.config
    return config.patch({name: value for name, value in _LIMITS.items() if hasattr(config, name)})
