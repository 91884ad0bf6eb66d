"""Makes a call from roles: the one caller for every vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance.model import Call, Parameter

_LEFT_OUT = object()


def invoke(call: Call, arguments: Mapping[str, Any]) -> Any:
    """Call `call.function` with `arguments`, which are given by role, and return what it returns.

    Roles that are missing in `arguments` are left out where the parameter has a default; a required
    normalised shape is made from x, a required weight or bias is None, a required offset is the call's own.
    """
    return prepare(call, arguments)()


def prepare(call: Call, arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """Return the call ready to be made: for a module this builds the instance, outside of any guard."""
    if call.function is None:
        raise ValueError("this call crossed a process boundary and has no function: load it again")
    positional, named = bind(call, arguments)
    ready = getattr(call.function, "prepare", None)
    function = call.function if ready is None else ready(arguments["x"], named)
    return lambda: function(*positional, **named)


def prepare_backward(call: Call, arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """Return the explicit backward of a call ready to be made, with arguments by role (BACKWARD_ROLES)."""
    backward = call.backward
    if backward is None:
        raise ValueError("this call has no explicit backward: its gradients come through autograd")
    return prepare(Call(backward.function, backward.parameters, weight_offset=call.weight_offset), arguments)


def bind(call: Call, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the named arguments of a call.

    By position as far as no parameter is left out, since that is how most callers write it, then by name.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    by_name = False
    for parameter in call.parameters:
        value = _value(parameter, call, arguments)
        by_name = by_name or parameter.keyword or value is _LEFT_OUT
        if value is _LEFT_OUT:
            continue
        if by_name:
            named[parameter.name] = value
        else:
            positional.append(value)
    return positional, named


def _value(parameter: Parameter, call: Call, arguments: Mapping[str, Any]) -> Any:
    role = parameter.role
    if role == "fixed":
        return parameter.value
    if role == "normalized_shape":
        return [arguments["x"].shape[-1]]
    if role == "zero_centered" and "weight_offset" in arguments:
        return bool(arguments["weight_offset"])
    if role in arguments:
        return arguments[role]
    if role in ("weight_offset", "zero_centered"):
        own = call.weight_offset if role == "weight_offset" else bool(call.weight_offset)
        stated = float(parameter.value or 0.0) == call.weight_offset
        return _LEFT_OUT if not parameter.required and stated else own
    if role in ("weight", "bias") and parameter.required:
        return None
    if parameter.required:
        raise TypeError(f"the parameter {parameter.name} ({role}) is required and no {role} was given")
    return _LEFT_OUT
