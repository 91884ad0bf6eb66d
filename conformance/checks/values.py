"""Check y: one rounding convention must explain the whole tensor within the derived error bound.

Grade `strict` is that rule. Grade `base` is the specification's allclose against the formula in float64.
Where y fails, the known wrong formulas are tried, and every one that gives exactly this y is named.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from conformance.diagnosing.diagnosis import diagnose
from conformance.model import Finding
from conformance.numerics import accuracy
from conformance.seen import Seen, View

NAME = "values"
REQUIREMENTS = ("ACCURACY-INTERVAL", "ACCURACY-ROUNDING", "INVARIANCE-FRESH", "MEM-READ", "REFUSE-DEVICE",
                "SPECIAL-NONFINITE")  # fmt: skip

_DEFAULTS = {"FORMULA-EPS-INSIDE": "FORMULA-EPS-DEFAULT", "FORMULA-EPS-HONOURED": "FORMULA-EPS-DEFAULT"}


def applies(seen: Seen) -> bool:
    return seen.returned and seen.run.fault in (None, "device_mixed") and seen.run.n_rows > 0


def check(seen: Seen) -> list[Finding]:
    for index, view in enumerate(seen.views):
        values = view.values("y")
        if values is None:
            continue  # the check `outputs` has said why
        findings = _base(seen, view, values) if seen.grade == "base" else _strict(seen, view, values, index)
        if findings:
            return findings
    return []


def _strict(seen: Seen, view: View, values: Tensor, index: int) -> list[Finding]:
    found = _explanation(view)
    if not found.conventions:
        return [_wrong(seen, view, values, index, *_told(found))]
    if found.truncating:
        return [_truncated(found, "fail")]
    return [Finding(NAME, "ACCURACY-INTERVAL", "info", note) for note in found.notes]


def _truncated(found: accuracy.Explanation, severity: str) -> Finding:
    what = "y is" if found.best.truncates_y else "the sum that y is computed from is"
    message = f"{what} truncated toward zero, not rounded to nearest even ({found.conventions[0]})"
    return Finding(NAME, "ACCURACY-ROUNDING", severity, message)


def _explanation(view: View) -> accuracy.Explanation:
    """Of a y that was read as numbers: the only kind that has none is one that `check` leaves out."""
    found = view.explanation
    if found is None:
        raise ValueError("y cannot be read as numbers, so nothing explains it; look at view.values first")
    return found


def _told(found: accuracy.Explanation) -> tuple[str, dict[str, object]]:
    """The first wrong element in words and as data, under the convention that explains most."""
    assert found.worst is not None
    first = found.wrong[0] if found.wrong else found.worst.element
    row, column = first.index
    message = (
        f"y[{row}, {column}] is {first.actual:.9g}, but should be {first.expected:.9g} "
        f"(allowed: {first.low:.9g} to {first.high:.9g}); {found.worst.count} of {found.compared} elements "
        f"are outside, by up to {found.worst.ulps:.3g} ULP ({found.worst.convention} comes nearest)"
    )
    return message, first.where()


def _base(seen: Seen, view: View, values: Tensor) -> list[Finding]:
    """What a rounding convention explains passes too: fp16 rounded twice can leave the tolerance."""
    found = _explanation(view)
    if found.truncating:
        return [_truncated(found, "warn")]
    result = accuracy.base_grade(view.problem, values)
    if not result.ok and not found.conventions:
        first = result.wrong[0]
        message = (
            f"y{list(first.index)} is {first.actual:.9g}, but should be {first.expected:.9g} within the base "
            f"tolerance; {result.count} of {result.compared} elements are outside"
        )
        return [_wrong(seen, view, values, 0, message, first.where())]
    return []


def _wrong(
    seen: Seen, view: View, values: Tensor, index: int, message: str, where: Mapping[str, Any]
) -> Finding:
    """The failure, named for the formula that y matches, the memory it read, or the case's question."""
    if seen.observation.outside_matters and seen.observation.outside_changed in ("", "y"):
        told = f"{message}. With other values in the memory around the inputs y changes: it is read"
        return Finding(NAME, seen.observation.outside_matters, "fail", told, where)
    if index and seen.run.scenario == "new_contents":
        told = f"call 2, with new contents at the same addresses: {message}; call 1 was right"
        return Finding(NAME, "INVARIANCE-FRESH", "fail", told, where)
    if seen.run.fault == "device_mixed":
        told = f"a weight on another device was accepted, and {message}"
        return Finding(NAME, "REFUSE-DEVICE", "fail", told, where)
    diagnosis = diagnose(view.problem, values, view.explanation)
    candidates = tuple((c.name, c.requirement, c.sentence) for c in diagnosis.matches)
    if seen.run.eps is None:  # what is wrong with the eps that was used is that nobody passed it
        candidates = tuple((n, _DEFAULTS.get(r, r), t) for n, r, t in candidates)
    requirement = diagnosis.requirement or _asked(seen)
    if seen.run.eps is None:
        requirement = _DEFAULTS.get(requirement, requirement)
    if requirement == "SPECIAL-NONFINITE" and seen.special_question:
        requirement = seen.special_question  # a NaN out of finite inputs is what a misread tensor gives
    if seen.run.requirements[0].startswith("SPECIAL-") and not values.isfinite().all():
        # Any formula that divides zero by zero or spreads a NaN fits here: these rows do not tell them apart.
        requirement = seen.run.requirements[0]
        candidates = tuple(c for c in candidates if c[1] == requirement)
    told = "; ".join([message, *(c[2] for c in candidates[:3]), *diagnosis.structure, *diagnosis.notes])
    return Finding(NAME, requirement, "fail", told, where, candidates)


def _asked(seen: Seen) -> str:
    """What the case was written to ask, where that is a question about numbers."""
    families = ("TAIL", "SPECIAL", "RANGE", "STRIDE", "ALIGN", "SIZE", "DTYPE")
    named = [r for r in seen.run.requirements if r.split("-", 1)[0] in families]
    return named[0] if named else "ACCURACY-INTERVAL"
