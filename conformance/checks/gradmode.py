"""Check what a backward must leave alone: gradients that arrive, outputs, and what nobody asked for."""

import numpy as np

from conformance import buffers
from conformance.model import UPSTREAM_OF, Finding
from conformance.run import Step
from conformance.seen import Seen

NAME = "gradmode"
REQUIREMENTS = ("GRADMODE-DY-UNTOUCHED", "GRADMODE-OUTPUTS-UNTOUCHED", "GRADMODE-UNASKED")


def applies(seen: Seen) -> bool:
    return seen.trains and seen.returned


def check(seen: Seen) -> list[Finding]:
    for step in seen.steps:
        made = step if step.forward else seen.steps[0]  # the call that made the outputs
        findings = [*_arriving(seen, step), *_outputs(seen, step, made), *_unasked(step)]
        if findings:
            return findings
    return []


def _arriving(seen: Seen, step: Step) -> list[Finding]:
    if seen.call.consumes_dy:
        return []
    found = []
    for role in UPSTREAM_OF.values():
        if role not in step.before or role not in step.after:
            continue
        changed = buffers.changed_elements(step.placed[role], step.before[role], step.after[role])
        if changed.any():
            index = [int(i) for i in np.argwhere(changed)[0]]
            message = (
                f"{role} was overwritten: {int(changed.sum())} of {changed.size} elements changed, the first "
                f"is {role}{index}; declare that the backward consumes it, or write elsewhere"
            )
            where = {"tensor": role, "index": index}
            found.append(Finding(NAME, "GRADMODE-DY-UNTOUCHED", "fail", message, where))
    return found


def _outputs(seen: Seen, step: Step, made: Step) -> list[Finding]:
    found = []
    for name, before, after in zip(seen.call.returns, made.data, step.after_data, strict=False):
        if not name or before is None or after is None or np.array_equal(before, after):
            continue
        message = (
            f"the backward overwrote {name}: {int((before != after).sum())} of {before.size} bytes changed"
            if before.shape == after.shape
            else f"the backward gave {name} another size"
        )
        where = {"tensor": name}
        found.append(Finding(NAME, "GRADMODE-OUTPUTS-UNTOUCHED", "fail", message, where))
    return found


def _unasked(step: Step) -> list[Finding]:
    return [
        Finding(NAME, "GRADMODE-UNASKED", "fail", f"{sentence}; torch.autograd.grad asks for neither")
        for sentence in step.record.get("unasked", [])
    ]
