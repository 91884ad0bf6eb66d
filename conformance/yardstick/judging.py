"""What a rule says of one observation: wrong, close, refused, or nothing where this machine cannot run it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from conformance.buffers import bits_dtype
from conformance.errors import HarnessBroken
from conformance.model import GRADIENT_OF, Run
from conformance.run import Observation, Step
from conformance.seen import View
from conformance.yardstick.reference import reference
from conformance.yardstick.rules import Rule

KEPT_ELEMENTS = 1 << 26
"""Elements of the references that are kept: every implementation is asked the same runs."""


@dataclass(frozen=True)
class Outcome:
    """kind: close, wrong, raised (the call raised an exception), or not run; `why` in words."""

    kind: str
    why: str = ""


class References:
    """The reference of each run, computed once and kept while there is room."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, dict[str, torch.Tensor]] = OrderedDict()
        self._elements = 0

    def of(self, run: Run, step: Step, rule: Rule) -> dict[str, torch.Tensor]:
        """The outputs that the rule compares with; see `conformance.yardstick.reference`."""
        if run.id not in self._kept:
            given = {role: tensor(bits, run.dtype_of(role)) for role, bits in step.bits.items()}
            found = reference(run, given, rule.form)
            self._elements += sum(value.numel() for value in found.values())
            self._kept[run.id] = found
            while self._elements > KEPT_ELEMENTS and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._elements -= sum(value.numel() for value in dropped.values())
        return self._kept[run.id]


def tensor(bits: np.ndarray, dtype: str) -> torch.Tensor:
    """The values of `bits` in their own dtype, same shape."""
    signed = np.ascontiguousarray(bits).view(f"<i{bits.dtype.itemsize}").copy()
    return torch.from_numpy(signed).view(getattr(torch, dtype))


def judged(seen: Observation, rule: Rule, references: References) -> Outcome:
    """Judge the one call of an observation by a rule.

    Raises HarnessBroken where the suite itself failed: that is no outcome of the implementation's.
    """
    if seen.status == "broken":
        raise HarnessBroken(f"{seen.run.id}: {seen.detail}", "Report it: this is a fault of the suite.")
    if seen.status == "not run":
        return Outcome("not run", seen.detail)
    if seen.status != "completed":
        return Outcome("wrong", f"{seen.status}: {seen.detail}")
    step = seen.steps[0]
    if step.record["status"] != "returned":
        return Outcome("raised", str(step.record.get("exception", {}).get("text", step.record["status"])))
    expected = references.of(seen.run, step, rule)
    for name, actual in _came_back(seen, step).items():
        if actual is None:
            return Outcome("wrong", f"{name}: no tensor came back")
        allowed = rule.tolerance(name, seen.run.dtypes["x"], seen.run.hidden_size)
        why = rule.close(actual, expected[name], allowed)
        if why:
            return Outcome("wrong", f"{name}: {why}")
    added = [line for line in step.record.get("unasked", []) if line.endswith(".grad was written")]
    if rule.reads_grad and added:
        return Outcome("wrong", f"{added[0]}, and autograd adds to it")
    return Outcome("close")


def _came_back(seen: Observation, step: Step) -> Mapping[str, torch.Tensor | None]:
    """The outputs as they are when the test compares them: in a training run, after the backward."""
    run, call = seen.run, seen.call
    view = View(run, call, seen.steps, seen.interpreted, "cpu")
    found: dict[str, torch.Tensor | None] = {}
    for name in ("y",) if run.mode == "none" else ("y", "residual_out"):
        output = view.output(name)
        found[name] = None if output is None else tensor(output.bits, output.dtype)
        slot = call.returns.index(name) if name in call.returns else len(step.after_data)
        again = step.after_data[slot] if slot < len(step.after_data) else None
        if output is not None and output.overwrites is None and again is not None:
            bits = again.view(bits_dtype(output.dtype)).reshape(output.shape)
            found[name] = tensor(bits, output.dtype)
    for role in run.gradients:
        gradient = view.gradient(role)
        found[GRADIENT_OF[role]] = None if gradient is None else tensor(gradient.bits, gradient.dtype)
    return found
