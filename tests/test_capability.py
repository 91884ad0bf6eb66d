"""What a call has no way to be asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from in_process import call
from signature_text import function_of
from small_runs import training

from conformance.calling import targets
from conformance.calling.capability import can_ask
from conformance.model import Backward, Call, Parameter, Run


def run_of(**changes: Any) -> Run:
    """A neutral plain run, with changes."""
    values: dict[str, Any] = {
        "id": "a/b", "case": "a/b", "file": "a.yaml", "about": "", "mode": "none", "shape": (2, 3),
        "dtypes": {"x": "float32", "weight": "float32"}, "eps": 1e-6, "fills": {}, "layouts": {},
        "requirements": ("FORMULA-EPS-INSIDE",), **changes,
    }  # fmt: skip
    return Run(**values)


@pytest.mark.parametrize(
    ("signature", "changes", "reason"),
    [
        ("x, weight, eps", {}, None),
        ("x, weight, eps", {"eps": None}, "eps is required"),
        ("x, weight, eps=1e-6", {"eps": None}, None),
        ("x, weight", {}, "no parameter for eps"),
        ("x, weight", {"eps": None}, None),
        ("x, eps", {}, "no parameter for weight"),
        ("x, eps", {"dtypes": {"x": "float32"}}, None),
        ("x, weight, eps", {"dtypes": {"x": "float32"}}, "weight is required"),
        ("x, weight: 'torch.Tensor | None', eps", {"dtypes": {"x": "float32"}}, None),
        ("x, weight=None, eps=1e-6", {"dtypes": {"x": "float32"}}, None),
        ("x, weight, eps", {"out": True}, "no parameter for out"),
        ("x, weight, eps", {"layouts": {"out": "row_slice"}}, "no parameter for out"),
        ("x, weight, eps, out=None", {"out": True}, None),
        ("x, weight, eps", {"weight_offset": 1.0}, "no parameter for weight_offset"),
        ("x, weight, eps, offset=0.0", {"weight_offset": 0.5}, None),
        ("x, weight, eps, gemma=False", {"weight_offset": 1.0}, None),
        ("x, weight, eps, gemma=False", {"weight_offset": 0.5}, "no parameter for weight_offset"),
    ],
)
def test_can_ask(signature: str, changes: dict[str, Any], reason: str | None) -> None:
    """Only the parameters decide what a call cannot be asked, and the reason names the parameter."""
    call = targets.recognise(function_of(signature), "pkg:f").calls["none"]
    found = can_ask(call, run_of(**changes))
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


def explicit(*roles: str, returns: tuple[str, ...] = ("dx", "dweight")) -> Backward:
    return Backward(None, tuple(Parameter(role, role) for role in roles), returns)


PLAIN = replace(call(lambda: None, returns=("y", "rrms")), backward=explicit("dy", "x", "weight", "rrms"))
FUSED = replace(
    call(lambda: None, "residual", returns=("y", "residual_out", "rrms")),
    backward=explicit("dy", "dresidual_out", "residual_out", "weight", "rrms"),
)
MIXED = {"x": "bfloat16", "residual": "float32", "weight": "float32"}


@pytest.mark.parametrize(
    ("one", "run", "reason"),
    [
        (call(lambda: None), training(), None),
        (call(lambda: None, mutates={"x": "y"}), training(), "x is overwritten"),
        (call(lambda: None, "residual_in_place"), training(mode="residual_in_place"), "x is overwritten"),
        (call(lambda: None, out=True, mutates={"out": "y"}), training(), None),
        (PLAIN, training(), None),
        (replace(PLAIN, returns=("y",)), training(), "the backward needs rrms"),
        (replace(PLAIN, backward=explicit("dy", "x", "rrms", returns=("dx", ""))), training(), "no dweight"),
        (
            replace(PLAIN, backward=explicit("dy", "x", "rrms", returns=("dx", ""))),
            training(gradients=("x",)),
            None,
        ),
        (FUSED, training(mode="residual"), None),
        (FUSED, training(mode="residual", dtypes=MIXED), "one gradient for x and residual"),
        (
            replace(FUSED, backward=explicit("dy", "residual_out", "rrms")),
            training(mode="residual"),
            "no parameter for dresidual_out",
        ),
        (
            replace(FUSED, backward=explicit("dy", "residual_out", "rrms")),
            training(mode="residual", upstream=("y",)),
            None,
        ),
    ],
)
def test_what_gradients_can_be_asked(one: Call, run: Run, reason: str | None) -> None:
    """Nothing of what overwrites its input; of an explicit backward what its parameters and slots allow."""
    found = can_ask(one, run)
    assert (found is None) == (reason is None), found
    assert reason is None or reason in found  # type: ignore[operator]
