"""Completes what an implementation says of its gradients: by declaration, by trial, by a twin function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType

import torch

from conformance.calling.differentiable import Answer, try_gradients
from conformance.calling.twin_backward import find_backward
from conformance.model import GRADIENT_OF, Backward, Call, Implementation


def with_gradients(
    implementation: Implementation,
    device: torch.device | str,
    *,
    module: ModuleType | None = None,
    name: str = "",
    known: Mapping[str, bool | None] | None = None,
) -> Implementation:
    """Return the implementation with `Call.differentiable`, and a sentence about each fusion mode.

    What is declared wins. A mode that overwrites what it would be differentiated by is not tried. module and
    name: where a user's function is from; an explicit backward function may be beside it. known: by fusion
    mode, what an earlier load found out, so that it is not tried again.
    """
    calls: dict[str, Call] = {}
    said = list(implementation.recognised)
    for mode, call in implementation.calls.items():
        calls[mode] = call
        if set(call.mutates) & set(GRADIENT_OF):
            continue
        found = _declared(call)
        if found is None and known is not None and mode in known:
            found = Answer(known[mode], "as an earlier process found out")
        if found is None:
            found = try_gradients(call, device)
        backward = call.backward
        if found.differentiable is False and backward is None and module is not None:
            backward = find_backward(module, name, call, device)
        calls[mode] = replace(call, differentiable=found.differentiable, backward=backward)
        said.append(f"{mode}: {found.why if backward is None else _reading(backward)}")
    return replace(implementation, calls=calls, recognised=tuple(said))


def _declared(call: Call) -> Answer | None:
    if call.backward is not None:
        return Answer(call.differentiable, "gradients by a declared function")
    if call.differentiable is None:
        return None
    return Answer(
        call.differentiable,
        "differentiable through autograd" if call.differentiable else "forward only, as it declares",
    )


def _reading(backward: Backward) -> str:
    """One sentence: the function, its parameters, what comes back."""
    name = getattr(backward.function, "__name__", "a function")
    shown = ", ".join(p.name if p.name == p.role else f"{p.name} is {p.role}" for p in backward.parameters)
    slots = ", ".join(slot or "(ignored)" for slot in backward.returns)
    return f"gradients by {name}: {shown}; returns ({slots})"
