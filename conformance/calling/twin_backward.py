"""Finds the explicit backward function beside a forward that has no graph: rms_norm_fwd and rms_norm_bwd.

Used only where nothing is left to guess: one function of that name, every parameter known by its name, a
forward that returns the statistic, and a trial call whose results can be told apart by their shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from conformance.calling.invoke import invoke, prepare_backward
from conformance.calling.probe import SHAPES, Trial, leave_after_a_device_fault, wave
from conformance.calling.readings import Candidate
from conformance.calling.roles import ROLE_NAMES, Argument
from conformance.calling.signatures import read
from conformance.errors import NotRecognised
from conformance.model import DTYPES, Backward, Call, Parameter

FORWARD_ENDINGS = ("_forward", "_fwd", "")
BACKWARD_ENDINGS = ("_backward", "_bwd")

BACKWARD_NAMES: dict[str, tuple[str, ...]] = {
    "dy": ("dy", "dout", "grad_output", "grad_out", "grad_y", "do", "g"),
    "dresidual_out": ("dresidual_out", "dres", "dresidual", "grad_residual_out"),
    "rrms": ("rstd", "rrms", "inv_rms", "rsigma", "invvar"),
    "residual_out": ROLE_NAMES["residual_out"],
    "x": ROLE_NAMES["x"],
    "residual": tuple(name for name in ROLE_NAMES["residual"] if name != "y"),
    "weight": ROLE_NAMES["weight"],
    "eps": ROLE_NAMES["eps"],
    "weight_offset": ROLE_NAMES["weight_offset"],
}
"""What published backward functions call their parameters; taken without regard to case."""

_ROLE_OF = {name: role for role, names in BACKWARD_NAMES.items() for name in names}


def find_backward(module: ModuleType, name: str, call: Call, device: torch.device | str) -> Backward | None:
    """Return the backward function of `call`, the function `name` of `module`; None where there is no such.

    None too where it is ambiguous, or where a trial call raises.
    """
    if "rrms" not in call.returns or "." in name:
        return None
    functions = {
        id(found): found
        for twin in _names(name)
        if callable(found := getattr(module, twin, None)) and found is not call.function
    }
    if len(functions) != 1:
        return None
    (function,) = functions.values()
    try:
        signature = read(function, getattr(function, "__name__", name))
    except NotRecognised:
        return None
    parameters = _parameters(signature.arguments, fused=call.parameter("residual") is not None)
    if parameters is None:
        return None
    return _settled(call, Backward(signature.function, parameters), torch.device(device))


def _names(name: str) -> list[str]:
    ending = next(e for e in FORWARD_ENDINGS if name.endswith(e))
    stem = name.removesuffix(ending)
    return [base + back for base in dict.fromkeys((stem, name)) for back in BACKWARD_ENDINGS]


def _parameters(arguments: Sequence[Argument], fused: bool) -> tuple[Parameter, ...] | None:
    """The parameters by role; None where one has none, two have the same, or what is needed is missing."""
    found: list[Parameter] = []
    left_out = False
    for argument in arguments:
        role = _ROLE_OF.get(argument.name.lower(), "")
        if not role and argument.required:
            return None
        if not role:
            left_out = True  # what follows has to be passed by name
            continue
        found.append(
            Parameter(
                argument.name, role, argument.required, left_out or argument.keyword,
                value=argument.default, nullable=argument.nullable,
            )
        )  # fmt: skip
    roles = [p.role for p in found]
    if fused and "x" in roles and not {"residual", "residual_out"} & set(roles):
        # x alone and its statistic cannot give x_hat of the sum: this x is the sum.
        found = [replace(p, role="residual_out") if p.role == "x" else p for p in found]
        roles = [p.role for p in found]
    complete = {"dy", "rrms"} <= set(roles) and bool({"x", "residual_out"} & set(roles))
    foreign = not fused and bool({"residual", "residual_out", "dresidual_out"} & set(roles))
    return tuple(found) if complete and not foreign and len(set(roles)) == len(roles) else None


def _settled(call: Call, backward: Backward, device: torch.device) -> Backward | None:
    """`backward` with its slots named, from one trial in the first dtype that it takes."""
    for dtype in DTYPES:
        try:
            shapes = _trial(replace(call, backward=backward), getattr(torch, dtype), device)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            leave_after_a_device_fault(device, raised)
            continue
        returns = _slots(shapes, call)
        return None if returns is None else replace(backward, returns=returns)
    return None


def _trial(call: Call, dtype: torch.dtype, device: torch.device) -> list[tuple[int, ...] | None]:
    """The shapes of what the backward returns after one forward, None for what is no tensor."""
    shape = SHAPES[0]
    trial = Trial(Candidate(call, call.parameter("residual") is not None), shape, device, dtype)
    result = invoke(call, dict(trial.arguments))
    slots = list(result) if isinstance(result, (tuple, list)) else [result]
    named = dict(zip(call.returns, slots, strict=False))
    arriving = {"dy": wave(shape, 0.2360679774997896, 2.0, device).to(dtype)}
    if call.parameter("residual") is not None:
        arriving["dresidual_out"] = wave(shape, 0.6457513110645907, 2.0, device).to(dtype)
    arguments: dict[str, Any] = {**trial.arguments, **arriving, "rrms": named["rrms"]}
    if "residual_out" in named:
        arguments["residual_out"] = named["residual_out"]
    back = prepare_backward(call, arguments)()
    slots = list(back) if isinstance(back, (tuple, list)) else [back]
    return [tuple(s.shape) if isinstance(s, torch.Tensor) else None for s in slots]


def _slots(shapes: list[tuple[int, ...] | None], call: Call) -> tuple[str, ...] | None:
    """A gradient's name for each slot, by shape; None where the shapes leave a choice."""
    fused = call.parameter("residual") is not None
    wide = ["dx", "dresidual"] if fused else ["dx"]
    names: list[str] = []
    for shape in shapes:
        if shape == SHAPES[0] and wide:
            names.append(wide.pop(0))
        elif shape == SHAPES[0][1:] and "dweight" not in names and call.parameter("weight") is not None:
            names.append("dweight")
        elif shape in (SHAPES[0], SHAPES[0][1:]):
            return None
        else:
            names.append("")
    return tuple(names) if "dx" in names else None
