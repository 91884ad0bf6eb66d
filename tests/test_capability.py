"""What a call has no way to be asked."""

from __future__ import annotations

from typing import Any

import pytest
from signature_text import function_of

from conformance.calling import targets
from conformance.calling.capability import can_ask
from conformance.model import Run


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
