"""Runs put to a Python function in this process: the worker's own code and memory, without a worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from conformance import run as stage
from conformance.load import requirements
from conformance.model import Call, Parameter, Run
from conformance.processes import serve
from conformance.processes.protocol import Arena, encode
from conformance.run import Observation


class NoInterpreter:
    """Stands in for the repair of Triton's interpreter, which would outlive the test."""

    problem = ""

    def launched(self) -> bool:
        return False


class InProcess:
    """A worker's server, asked directly; use it as `conformance.processes.isolate.Worker`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(serve, "Interpreter", NoInterpreter)
        self.arena = Arena()
        self.server = serve.Server(self.arena, "cpu")

    def ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        reply = self.server.answer(json.loads(encode(message)))
        assert "broken" not in reply, reply["trace"]
        return json.loads(encode(reply))

    def observe(self, run: Run, call: Call) -> Observation:
        """What happens when `run` is put to `call`."""
        self.server._calls = {run.mode: call}
        return stage.execute(run, call, self, self.arena, "cpu", 0.0)  # type: ignore[arg-type]


def call(function: Callable[..., Any], mode: str = "none", out: bool = False, **changes: Any) -> Call:
    """The usual call of a fusion mode: (x, [residual,] weight, eps [, out])."""
    roles = ["x", "weight", "eps"] if mode == "none" else ["x", "residual", "weight", "eps"]
    parameters = tuple(Parameter(role, role) for role in roles)
    if out:
        parameters += (Parameter("out", "out", required=False),)
    changes.setdefault("returns", ("y",) if mode == "none" else ("y", "residual_out"))
    if mode == "residual_in_place":
        changes |= {"returns": (), "mutates": {"x": "y", "residual": "residual_out"}}
    return Call(function, parameters, **changes)


REQUIREMENTS = requirements()
