"""Check what the forward saves for the backward: rrms, in fp32, and that the backward reads it.

The second call of such a run gets every saved tensor with an element a row doubled. A gradient that stays as
it was has not read it; one that shrinks has divided by it. Both are right in value, so they warn. A saved
statistic that is less accurate than fp32 fails.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from conformance.diagnosing import doubled_statistic as doubled
from conformance.model import Finding
from conformance.numerics import accuracy
from conformance.seen import Seen, View, to_float64

NAME = "saved_statistic"
REQUIREMENTS = ("RRMS-READ", "RRMS-RECIPROCAL", "RRMS-SAVED")

_NEAR = 0.02
"""How far a saved number may be from rrms, or rms, to be taken for one: 16 bits are nearer."""

_FLOATING = ("float16", "bfloat16", "float32", "float64")


def applies(seen: Seen) -> bool:
    usual = seen.trains and seen.run.scenario == "saved_statistic" and seen.run.n_rows > 0
    return usual and seen.returned and seen.differentiable and len(seen.steps) == 2


def check(seen: Seen) -> list[Finding]:
    view, record = seen.views[0], seen.steps[0].record
    found = [f for slot, data in _saved(seen) for f in _accurate(view, slot, data)]
    if "y" not in seen.run.upstream:
        return found  # residual_out's gradient passes by the norm
    message, requirement, severity = "", "RRMS-READ", "warn"
    use, saved = _use(seen), record.get("saved", [])
    if use == doubled.UNREAD or (not saved and not use):
        if record.get("other_saved") or len(saved) > 1:
            severity = "info"
            message = "whether the backward reads a saved rrms cannot be told from what the forward saves"
        elif not saved:
            message = (
                "the forward saves nothing but inputs and outputs: the backward computes rrms again, or "
                "reads it from where no graph keeps it"
            )
        else:
            message = (
                f"with the saved statistic doubled ({saved[0]['name']}) the gradients stay as they were: "
                "recomputed"
            )
    elif use in (doubled.INVERTED, doubled.MEAN_SQUARE):
        what = "rms" if use == doubled.INVERTED else "the mean square"
        message = (
            f"with the saved statistic doubled the gradients shrink: it is {what}, and not its reciprocal"
        )
        requirement = "RRMS-RECIPROCAL"
    return [*found, Finding(NAME, requirement, severity, message)] if message else found


def _use(seen: Seen) -> str:
    """What became of the doubled statistic; "" where the gradients cannot tell."""
    first, second = seen.views
    for role in ("x", "residual"):
        values = second.gradient_values(role) if role in seen.run.gradients else None
        if values is not None:
            told = doubled.by_dx(second.gradient_problem, values)
            if told:
                return told
    if "weight" not in seen.run.gradients:
        return ""
    ordinary, values = first.gradient_values("weight"), second.gradient_values("weight")
    return "" if ordinary is None or values is None else doubled.by_dweight(ordinary, values)


def _saved(seen: Seen) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """(record, values) of every saved tensor with an element a row, float64 (n_rows,)."""
    step, view = seen.steps[0], seen.views[0]
    for slot, data in zip(step.record.get("saved", []), step.saved_data, strict=True):
        if slot["dtype"] in _FLOATING:
            size = getattr(torch, slot["dtype"]).itemsize
            yield slot, to_float64(data.view(f"<u{size}").reshape(-1), slot["dtype"], view.device)


def _accurate(view: View, slot: dict[str, Any], values: Tensor) -> list[Finding]:
    """Whether a saved tensor that is rrms, or rms, is as good as fp32 can be. Any other is not judged."""
    exact = view.problem.x if view.problem.residual is None else view.problem.x + view.problem.residual
    right = 1.0 / (exact.square().mean(-1) + view.problem.eps).sqrt()
    judged = right.isfinite() & (right > 0)
    if not bool(judged.any()):
        return []
    for name, reading in (("rrms", values), ("rms", 1.0 / values)):
        off = (reading / right - 1.0).abs()[judged]
        if not bool((off <= _NEAR).all()):
            continue
        # As fp32 numbers, since that is what the rule speaks of; float64 may hold what lies between.
        verdict = accuracy.rrms_ok(view.problem, reading.to(torch.float32).to(torch.float64))
        wide = slot["dtype"] in ("float32", "float64")
        if wide and verdict.ok:
            return []
        if not wide:
            told = f"in {slot['dtype']}, but should be in float32"
        else:
            worst = verdict.wrong[0]
            told = (
                f"not as accurate as fp32: row {worst.index[0]} reads {worst.actual:.9g}, but should read "
                f"{worst.expected:.9g} ({worst.low:.9g} to {worst.high:.9g})"
            )
        message = f"the {name} that is saved for the backward ({slot['name']}) is {told}"
        return [Finding(NAME, "RRMS-SAVED", "fail", message, {"tensor": slot["name"]})]
    return []
