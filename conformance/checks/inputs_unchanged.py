"""Check that what the call does not declare to overwrite is bit for bit what it was.

The gradients that arrive in a training run have a requirement of their own (the check `gradmode`).
"""

import numpy as np

from conformance import buffers
from conformance.model import UPSTREAM_OF, Finding
from conformance.seen import Seen

NAME = "inputs_unchanged"
REQUIREMENTS = ("INPUTS-UNCHANGED",)


def applies(seen: Seen) -> bool:
    return seen.returned


def check(seen: Seen) -> list[Finding]:
    found = []
    for step in seen.steps:
        for role in step.bits:
            if role in seen.call.mutates or role in UPSTREAM_OF.values():
                continue
            changed = buffers.changed_elements(step.placed[role], step.before[role], step.after[role])
            if changed.any():
                index = [int(i) for i in np.argwhere(changed)[0]]
                message = (
                    f"{role} was overwritten: {int(changed.sum())} of {changed.size} elements changed, the "
                    f"first is {role}{index}; work in place only where the call declares it (mutates)"
                )
                where = {"tensor": role, "index": index}
                found.append(Finding(NAME, "INPUTS-UNCHANGED", "fail", message, where))
        if found:
            break
    return found
