"""An implementation as JSON, without functions: what crosses from the worker to the suite. No torch here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from conformance.model import Backward, Call, Implementation, Parameter


def describe(implementation: Implementation) -> dict[str, Any]:
    """Return the implementation as JSON values; `from_description` gives it back without functions."""
    values = {f.name: getattr(implementation, f.name) for f in fields(Implementation) if f.name != "calls"}
    values["calls"] = {mode: _describe_call(call) for mode, call in implementation.calls.items()}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def from_description(values: Mapping[str, Any]) -> Implementation:
    """Return the implementation that `describe` described; every function is None."""
    known = {f.name for f in fields(Implementation)}
    rest: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known
    }
    rest["calls"] = {mode: _call(call) for mode, call in values["calls"].items()}
    return Implementation(**rest)


def _describe_call(call: Call) -> dict[str, Any]:
    values = {f.name: getattr(call, f.name) for f in fields(Call) if f.name != "function"}
    backward = call.backward
    return {
        **values,
        "parameters": _parameters(call.parameters),
        "returns": list(call.returns),
        "mutates": dict(call.mutates),
        "backward": backward
        and {"parameters": _parameters(backward.parameters), "returns": list(backward.returns)},
    }


def _parameters(parameters: Iterable[Parameter]) -> list[dict[str, Any]]:
    return [{**asdict(_plain(p)), "value": _json(p.value)} for p in parameters]


def _plain(parameter: Parameter) -> Parameter:
    """Without the value, which asdict would copy deeply, whatever it is."""
    return Parameter(
        parameter.name, parameter.role, parameter.required, parameter.keyword, nullable=parameter.nullable
    )


def _call(values: Mapping[str, Any]) -> Call:
    backward = values["backward"]
    return Call(
        function=None,
        **{
            **values,
            **_parts(values),
            "backward": None if backward is None else Backward(function=None, **_parts(backward)),
        },
    )


def _parts(values: Mapping[str, Any]) -> dict[str, Any]:
    parameters = tuple(Parameter(**p) for p in values["parameters"])
    return {"parameters": parameters, "returns": tuple(values["returns"])}


def _json(value: Any) -> Any:
    """A default that JSON can hold as it is; anything else as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return type(value).__name__
