"""Check that a declared mutation reaches the caller's storage, and that an output is not just the input.

An implementation that works on a contiguous copy of a strided tensor leaves the caller's tensor as it was.
"""

from conformance import buffers
from conformance.model import Finding
from conformance.seen import Seen

NAME = "in_place"
REQUIREMENTS = ("INPLACE-STORAGE",)


def applies(seen: Seen) -> bool:
    return seen.returned and bool(seen.call.mutates) and seen.run.fault is None and seen.run.n_rows > 0


def check(seen: Seen) -> list[Finding]:
    found = []
    for step in seen.steps:
        for role, output in seen.call.mutates.items():
            if role not in step.placed:
                continue
            changed = buffers.changed_elements(step.placed[role], step.before[role], step.after[role])
            if not changed.any() and not _may_stay(step, role, output):
                message = f"{role} should be overwritten with {output}, but the caller's tensor is as it was"
                found.append(Finding(NAME, "INPLACE-STORAGE", "fail", message, {"tensor": role}))
        if found:
            break
    return found


def _may_stay(step, role: str, output: str) -> bool:
    """Whether the right result may equal the old contents: all zeros, or a residual that x does not move."""
    old = buffers.elements(step.placed[role], step.before[role])
    sign = 1 << (8 * old.dtype.itemsize - 1)
    x = step.bits["x"]
    x_is_zero = not (x & x.dtype.type((1 << (8 * x.dtype.itemsize - 1)) - 1)).any()
    return not (old & old.dtype.type(sign - 1)).any() or (output == "residual_out" and x_is_zero)
