"""Check the form of every gradient: shape, dtype and device of the tensor that it belongs to.

Autograd converts a dtype by itself and raises for a shape, so most of this shows in explicit backward
functions; what autograd raises is read here, and is no refusal.
"""

import re
from collections.abc import Mapping
from typing import Any

from conformance.model import GRADIENT_OF, Finding, Run
from conformance.seen import Output, Seen, View

NAME = "gradients_form"
REQUIREMENTS = ("DX-FORM", "DRESIDUAL-FORM", "DWEIGHT-SHAPE", "DWEIGHT-DTYPE")

_FORM = {"x": "DX-FORM", "residual": "DRESIDUAL-FORM"}
_INVALID = re.compile(
    r"returned an invalid gradient at index (\d+) - got (\[[^]]*\]) but expected shape compatible with "
    r"(\[[^]]*\])"
)


def applies(seen: Seen) -> bool:
    if not seen.trains or seen.observation.status != "completed" or not seen.steps:
        return False
    return seen.returned or bool(invalid_gradient(seen.run, seen.steps[-1].record))


def check(seen: Seen) -> list[Finding]:
    if not seen.returned:
        requirement, message = invalid_gradient(seen.run, seen.steps[-1].record) or ("", "")
        return [Finding(NAME, requirement, "fail", message)]
    for view in seen.backwards:
        findings = [f for role in seen.run.gradients for f in _one(view, role)]
        if findings:
            return findings
    return []


def invalid_gradient(run: Run, record: Mapping[str, Any]) -> tuple[str, str] | None:
    """(requirement, message) where autograd raised because a gradient has a shape that it cannot have."""
    if record.get("phase") != "backward" or "exception" not in record:
        return None
    found = _INVALID.search(record["exception"]["text"])
    if found is None:
        return None
    index, got, expected = int(found[1]), found[2], found[3]
    # Which input that is only its shape says; a vector as x has the shape of its weight.
    of_weight = expected == str([run.hidden_size]) and (len(run.shape) > 1 or index > 0)
    requirement, name = ("DWEIGHT-SHAPE", "dweight") if of_weight else ("DX-FORM", "dx or dresidual")
    message = f"{name}.shape is {got}, but should be {expected}: autograd refused gradient number {index + 1}"
    return requirement, message


def _one(view: View, role: str) -> list[Finding]:
    slot = view.steps[-1].record.get("gradients", {}).get(role, {"kind": "none"})
    name, run = GRADIENT_OF[role], view.run
    if slot["kind"] == "none":
        return []  # the check `gradients_present` says whether that is right
    shape_requirement = _FORM.get(role, "DWEIGHT-SHAPE")
    gradient = view.gradient(role)
    if gradient is None:
        message = f"{name} is a {slot['type']}, but should be a plain torch.Tensor"
        return [Finding(NAME, shape_requirement, "fail", message)]
    shape = (run.hidden_size,) if role == "weight" else tuple(view.steps[-1].placed[role].shape)
    found = []
    if gradient.shape != shape:
        message = f"{name}.shape is {gradient.shape}, but should be {shape}"
        found.append(Finding(NAME, shape_requirement, "fail", message))
    return found + _kind(view, role, gradient)


def _kind(view: View, role: str, gradient: Output) -> list[Finding]:
    """dtype and device."""
    requirement, found = _FORM.get(role, "DWEIGHT-DTYPE"), []
    own = view.run.dtypes[role]
    if gradient.dtype != own:
        message = f"{gradient.name}.dtype is {gradient.dtype}, but should be {own}, that of {role}"
        found.append(Finding(NAME, requirement, "fail", message))
    if gradient.device != view.run_device:
        message = f"{gradient.name} is on {gradient.device}, but should be on {view.run_device}"
        found.append(Finding(NAME, requirement, "fail", message))
    return found
