"""The adapter torch_compile: every answer comes from compiled code, and its backward from a kept graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from in_process import InProcess
from small_runs import training

from conformance.calling import targets
from conformance.calling.compiled import Compiled
from conformance.errors import NotCompiled
from conformance.run import gradient_bits


def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def keep(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """A backend that compiles nothing: fast enough for a unit test of the counting."""
    return graph.forward


def test_compiled_counts_its_runs() -> None:
    """Each call runs a compiled graph, over more shapes than torch's own limit of recompilations."""
    compiled = Compiled(lambda x, weight, eps: norm(x, weight, eps), backend=keep)
    for width in range(1, 24):
        y = compiled(torch.ones(3, width), torch.ones(width), eps=0.0)
        assert torch.equal(y, torch.ones(3, width))
    assert compiled.runs == 23
    assert compiled.graphs >= 1


def test_eager_fallback_is_never_taken_for_compiled() -> None:
    """A function that dynamo does not compile returns a right answer and is refused all the same."""

    @torch._dynamo.disable
    def eager(x):
        return x

    with pytest.raises(NotCompiled, match="fell back to eager"):
        Compiled(eager, backend=keep)(torch.ones(2))


def test_torch_compile_runs_inductor(worker: InProcess) -> None:
    """The adapter compiles by Inductor, says so to the worker, and gives the formula; a graph can be kept."""
    calls = targets.load("torch_compile").calls
    assert all((call.compiled, call.differentiable) == (True, True) for call in calls.values())
    call = calls["none"]
    x = torch.arange(24.0).reshape(4, 6) - 11.5
    weight = torch.linspace(-0.5, 0.75, 6)
    y = targets.invoke(call, {"x": x, "weight": weight, "eps": 0.125})
    assert (y - norm(x, weight, 0.125)).abs().max() < 1e-5
    assert call.function is not None
    assert call.function.graphs == call.function.runs == 1
    first, second = worker.observe(training(scenario="retained"), call).steps
    assert (first.record["status"], second.record["status"]) == ("returned", "returned")
    assert (gradient_bits(first, "weight") == gradient_bits(second, "weight")).all()
