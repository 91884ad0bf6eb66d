"""Check dx: one convention must explain the whole tensor within the derived error bound.

Where it does not, the known wrong formulas are tried, and every one that gives exactly this dx is named. A y
that is wrong has the gradient of something else: then nothing is said of dx.
"""

import math
from weakref import WeakKeyDictionary

import numpy as np

from conformance.checks.gradients_present import arrives_alone, is_zero
from conformance.diagnosing.diagnosis import Diagnosis
from conformance.diagnosing.gradient_explained import explained, problem_of
from conformance.diagnosing.gradients import diagnose_dx, renamed
from conformance.model import GRADIENT_OF, LAYOUT_REQUIREMENTS, UPSTREAM_OF, Finding
from conformance.numerics.gradients import GradientExplanation
from conformance.seen import Seen, View

NAME = "dx"
REQUIREMENTS = (
    "DX-WEIGHT", "DX-PROJECTION", "DX-RRMS", "DX-ROWS", "DX-ACCURACY", "DRESIDUAL-AFTER", "DRESIDUAL-ADDED",
    "DRESIDUAL-SAME", "DWEIGHT-ZERO-WEIGHTS", "GRADMODE-DY-LAYOUT", "GRADMODE-COMBINATION", "MEM-READ",
    "SPECIAL-NONFINITE",
)  # fmt: skip

_OF_DX: WeakKeyDictionary[View, Diagnosis] = WeakKeyDictionary()
"""What was found out about dx, for the check of dresidual."""


def applies(seen: Seen) -> bool:
    return asked(seen, "x")


def check(seen: Seen) -> list[Finding]:
    return judged(seen, "x", "DX-ACCURACY")


def asked(seen: Seen, role: str) -> bool:
    """Whether there is a gradient of `role` to judge: asked for, and of a y that is right."""
    if not seen.trains or not seen.returned or role not in seen.run.gradients:
        return False
    forward = seen.views[0].explanation
    return seen.grade == "base" or forward is None or bool(forward.conventions) or not forward.compared


def judged(seen: Seen, role: str, accuracy: str) -> list[Finding]:
    """The findings on dx or dresidual of the first call; the check `gradients_repeat` judges later ones."""
    view, name = seen.backwards[0], GRADIENT_OF[role]
    found, values = explained(view, role), view.gradient_values(role)
    if found is None or values is None:
        return []
    if found.conventions:
        return [Finding(name, accuracy, "info", f"{name}: {note}") for note in found.notes]
    if arrives_alone(seen) and is_zero(view, role):
        return []  # the check `gradients_present` has said so
    diagnosis = Diagnosis() if seen.observation.outside_matters else _diagnosed(view, role, found)
    return [wrong(seen, view, role, accuracy, found, diagnosis)]


def _diagnosed(view: View, role: str, found: GradientExplanation) -> Diagnosis:
    """Why dx or dresidual is wrong; asked once where they are one tensor of values, as they should be."""
    values, gradient = view.gradient_values(role), view.gradient(role)
    assert values is not None
    assert gradient is not None
    other = view.gradient("x")
    same = role == "residual" and other is not None and other.dtype == gradient.dtype
    if same and other is not None and np.array_equal(other.bits, gradient.bits) and view in _OF_DX:
        return renamed(_OF_DX[view], GRADIENT_OF[role])
    diagnosis = diagnose_dx(problem_of(view, role), values, GRADIENT_OF[role], found)
    if role == "x":
        _OF_DX[view] = diagnosis
    return diagnosis


def wrong(
    seen: Seen,
    view: View,
    role: str,
    accuracy: str,
    found: GradientExplanation,
    diagnosis: Diagnosis,
) -> Finding:
    """The failure, named for the formula that it matches, for the memory it read, or the case's question."""
    name, values = GRADIENT_OF[role], view.gradient_values(role)
    message, where = _told(name, found)
    observation = seen.observation
    if observation.outside_matters and observation.outside_changed in ("", name):
        told = f"{message}. With other values in the memory around the inputs {name} changes: it is read"
        requirement = _of_arriving(seen) or observation.outside_matters
        return Finding(name, requirement, "fail", told, where)
    partly = set(seen.run.gradients) < {r for r in seen.run.dtypes if r in GRADIENT_OF}
    if partly and values is not None and not bool(values.any()):
        told = f"{message}. {name} is 0 everywhere, where not every input requires a gradient"
        return Finding(name, "GRADMODE-COMBINATION", "fail", told, where)
    candidates = tuple((c.name, c.requirement, c.sentence) for c in diagnosis.matches)
    requirement = diagnosis.requirement or _question(seen, found) or accuracy
    told = "; ".join([message, *(c[2] for c in candidates[:3]), *diagnosis.structure, *diagnosis.notes])
    return Finding(name, requirement, "fail", told, where, candidates)


def _told(name: str, found: GradientExplanation) -> tuple[str, dict[str, object]]:
    """The first wrong element in words and as data, under the convention that comes nearest."""
    if found.worst is None:
        return f"{name} has no element that could be judged", {"tensor": name}
    first = found.wrong[0] if found.wrong else found.worst.element
    message = (
        f"{name}{list(first.index)} is {first.actual:.9g}, but should be {first.expected:.9g} "
        f"(allowed: {first.low:.9g} to {first.high:.9g}); {found.worst.count} of {found.compared} elements "
        f"are outside, by up to {found.worst.ulps:.3g} ULP ({found.worst.convention} comes nearest)"
    )
    return message, first.where(name)


def _question(seen: Seen, found: GradientExplanation) -> str:
    """What the case asks, where no formula says more: a layout or a mix of dtypes, or special values."""
    requirements = seen.run.requirements
    kinds = [w for w in found.wrong if not (math.isfinite(w.actual) and math.isfinite(w.expected))]
    if kinds and requirements[0].startswith("SPECIAL-"):
        return requirements[0]
    named = [r for r in requirements if r.startswith(LAYOUT_REQUIREMENTS)]
    return _of_arriving(seen) or (named[0] if named and seen.run.features else "")


def _of_arriving(seen: Seen) -> str:
    """The requirement on the layout of a gradient that arrives, where nothing else has a layout; or ""."""
    laid_out = {role for role, layout in seen.run.layouts.items() if layout != "contiguous"}
    return "GRADMODE-DY-LAYOUT" if laid_out and laid_out <= set(UPSTREAM_OF.values()) else ""
