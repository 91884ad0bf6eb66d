"""Whether a call has gradients at all: small calls at load, with inputs that require one.

Only an op whose outputs never require grad is forward only; it is not asked for gradients. One that has a
graph in a single trial is held to have it everywhere, so a trial excuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from conformance.calling.graphs import behind_custom_op, has_graph, says_no_formula
from conformance.calling.invoke import invoke
from conformance.calling.probe import SHAPES, Trial, leave_after_a_device_fault
from conformance.calling.readings import Candidate
from conformance.model import DTYPES, GRADIENT_OF, Call

_PRESENT = ("x", "residual", "weight")


@dataclass(frozen=True)
class Answer:
    """differentiable: None where no trial says so. why: in words, for a user."""

    differentiable: bool | None
    why: str


THROUGH_AUTOGRAD = Answer(True, "differentiable through autograd")


def try_gradients(
    call: Call,
    device: torch.device | str,
    run_call: Callable[[Call, dict[str, Any]], Any] = invoke,
) -> Answer:
    """Say whether any output of `call` ever requires grad; stops at the first that does.

    Every dtype is tried, each with all inputs that may require a gradient, then with one alone, then at other
    sizes. Whatever a call raises is no answer; where all of them raise, and the same call without gradients
    does not, the op refuses to be differentiated.
    """
    if call.compiled:
        return Answer(None, "compiled, so whether it has gradients was not tried")
    device, refused, returned = torch.device(device), "", False
    for shape, dtype, wanted in _questions(call):
        outcome = _ask(call, shape, dtype, wanted, device, run_call)
        if outcome is True:
            return THROUGH_AUTOGRAD
        returned = returned or outcome is False
        refused = refused or (outcome if isinstance(outcome, str) else "")
    if returned:
        return Answer(False, "forward only (no output ever requires grad)")
    if isinstance(_ask(call, SHAPES[0], DTYPES[0], (), device, run_call), str):
        return Answer(None, f"whether it has gradients could not be tried: {refused}")
    return Answer(False, f"forward only (it refuses inputs that require a gradient: {refused})")


def _questions(call: Call) -> Iterator[tuple[tuple[int, ...], str, tuple[str, ...]]]:
    """(shape, dtype, inputs that require a gradient), the most ordinary first."""
    inputs = tuple(role for role in GRADIENT_OF if call.parameter(role) is not None)
    for dtype in DTYPES:
        yield SHAPES[0], dtype, inputs
    for dtype in DTYPES:
        for role in inputs:
            yield SHAPES[0], dtype, (role,)
    for shape in SHAPES[1:]:
        for dtype in DTYPES:
            yield shape, dtype, inputs


def _ask(
    call: Call,
    shape: tuple[int, ...],
    dtype: str,
    wanted: tuple[str, ...],
    device: torch.device,
    run_call: Callable[[Call, dict[str, Any]], Any],
) -> bool | str:
    """Whether an output has a graph, or what was raised."""
    fused = call.parameter("residual") is not None
    trial = Trial(Candidate(call, fused), shape, device, getattr(torch, dtype))
    arguments = trial.arguments
    for role in set(_PRESENT) & set(arguments):
        if role == "weight":  # as in a model; a module takes it over
            arguments[role] = torch.nn.Parameter(arguments[role], requires_grad=False)
        arguments[role].requires_grad_(role in wanted)
    try:
        with torch.enable_grad():
            result = run_call(call, dict(arguments))
            slots = list(result) if isinstance(result, (tuple, list)) else [result]
            written = [arguments[role] for role in call.mutates if role not in GRADIENT_OF]
            leaves = [arguments[role] for role in wanted]
            return any(_differentiable(value, leaves) for value in (*slots, *written))
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        leave_after_a_device_fault(device, raised)
        return f"{type(raised).__name__}: {raised}".splitlines()[0][:200]


def _differentiable(value: Any, leaves: list[torch.Tensor]) -> bool:
    """Whether a value has a graph; behind a custom operator only its backward tells whether there is one."""
    if not has_graph(value):
        return False
    if not behind_custom_op(value):
        return True
    try:
        torch.autograd.grad(value, leaves, torch.ones_like(value), allow_unused=True)
    except Exception as error:
        return not says_no_formula(error, value)
    return True
