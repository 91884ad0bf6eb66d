"""Check later gradients against the first: another call, a second backward, or that of an earlier graph.

They must be as right as the first one's, which dx, dresidual and dweight judge. Other bits that are right too
are worth a warning: a run of training cannot be repeated.
"""

import numpy as np

from conformance.diagnosing.gradient_explained import explained
from conformance.model import GRADIENT_OF, Finding
from conformance.seen import Seen, View

NAME = "gradients_repeat"
REQUIREMENTS = (
    "GRADMODE-REPEAT", "GRADMODE-RETAINED", "GRADMODE-GRAPHS", "INVARIANCE-FRESH", "DWEIGHT-REPEAT",
    "INVARIANCE-REPEAT",
)  # fmt: skip

_ASKED = {
    "repeat": ("GRADMODE-REPEAT", "of call {number}, with the arguments of the first,"),
    "retained": ("GRADMODE-RETAINED", "of backward {number} over the retained graph"),
    "interleaved": ("GRADMODE-GRAPHS", "of call 1, asked after call 2 went forward and backward,"),
    "new_contents": ("INVARIANCE-FRESH", "of call {number}, with new contents at the same addresses,"),
}


def applies(seen: Seen) -> bool:
    return seen.trains and seen.returned and seen.run.scenario in _ASKED and len(seen.backwards) > 1


def check(seen: Seen) -> list[Finding]:
    found = _overwritten(seen)
    for role in seen.run.gradients:
        first = explained(seen.backwards[0], role)
        if first is not None and first.conventions:
            found += _later(seen, role)
    return found


def _overwritten(seen: Seen) -> list[Finding]:
    """Gradients that were handed out, and that a later call changed: they lie in memory that it keeps."""
    found = []
    for step in seen.steps:
        for role, kept in step.kept_data.items():
            given = step.gradient_data.get(role)
            if kept is None or given is None or np.array_equal(given, kept):
                continue
            name = GRADIENT_OF[role]
            message = f"a later call overwrote {name} of an earlier one, after it had been handed out"
            found.append(Finding(NAME, "GRADMODE-GRAPHS", "fail", message, {"tensor": name}))
    return found[:1]


def _later(seen: Seen, role: str) -> list[Finding]:
    """What is wrong with, or different about, the first later gradient of `role` that is either."""
    first, name = seen.backwards[0], GRADIENT_OF[role]
    requirement, which = _ASKED[seen.run.scenario]
    same_question = seen.run.scenario not in ("new_contents", "interleaved")
    for number, view in enumerate(seen.backwards[1:], 2):
        if same_question and _same_bits(first, view, role):
            continue
        what = f"{name} {which.format(number=number)}"
        found = explained(view, role)
        if found is None:
            message = f"{what} is missing, and that of the first was right"
            return [Finding(NAME, requirement, "fail", message, {"tensor": name})]
        if not found.conventions:
            return [_wrong(name, what, requirement, view, role)]
        if same_question:
            other = "DWEIGHT-REPEAT" if role == "weight" else "INVARIANCE-REPEAT"
            message = f"the same question twice gives other bits: {_difference(first, view, role)}"
            return [Finding(NAME, other, "warn", message, {"tensor": name})]
    return []


def _wrong(name: str, what: str, requirement: str, view: View, role: str) -> Finding:
    found = explained(view, role)
    assert found is not None
    if found.worst is None:
        return Finding(NAME, requirement, "fail", f"{what} is wrong", {"tensor": name})
    element = found.wrong[0] if found.wrong else found.worst.element
    message = (
        f"{what} is wrong, and that of the first was right: {name}{list(element.index)} is "
        f"{element.actual:.9g}, but should be {element.expected:.9g}; {found.worst.count} of "
        f"{found.compared} elements are outside"
    )
    return Finding(NAME, requirement, "fail", message, element.where(name))


def _same_bits(first: View, later: View, role: str) -> bool:
    a, b = first.gradient(role), later.gradient(role)
    return a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a.bits, b.bits)


def _difference(first: View, later: View, role: str) -> str:
    a, b = first.gradient(role), later.gradient(role)
    assert a is not None
    assert b is not None
    name = GRADIENT_OF[role]
    if a.bits.shape != b.bits.shape:
        return f"{name} has another shape"
    differs = a.bits != b.bits
    at = [int(i) for i in np.argwhere(differs)[0]]
    return f"{int(differs.sum())} of {differs.size} elements of {name} differ, the first is {name}{at}"
