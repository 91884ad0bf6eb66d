"""Check residual_out: exactly the fp32 sum rounded once to nearest even. One sum needs no tolerance."""

import torch
from torch import Tensor

from conformance.model import Finding
from conformance.numerics import accuracy
from conformance.numerics.rounding import nearest
from conformance.seen import Seen, View

NAME = "residual"
REQUIREMENTS = ("RESIDUAL-ADDED", "RESIDUAL-EXACT", "RESIDUAL-ROUNDING", "RESIDUAL-WRITTEN")


def applies(seen: Seen) -> bool:
    return seen.returned and seen.run.mode != "none" and seen.run.fault in (None, "eps_zero", "eps_negative")


def check(seen: Seen) -> list[Finding]:
    for view in seen.views:
        output, actual = view.output("residual_out"), view.values("residual_out")
        if output is None or actual is None or not actual.numel():
            continue  # the check `outputs` has said why
        dtype = output.dtype
        verdict = accuracy.residual_exact(view.problem, actual, dtype)
        if verdict.exact:
            continue
        first = verdict.wrong[0]
        place = (
            f"residual_out{list(first.index)} is {first.actual:.9g}, but should be {first.expected:.9g}; "
            f"{verdict.count} of {verdict.compared} elements differ"
        )
        where = first.where("residual_out")
        if verdict.status == "truncated":
            severity = "fail" if seen.grade == "strict" else "warn"
            message = (
                f"residual_out is the sum truncated toward zero, not rounded to nearest even: {place}. "
                "Each call is within one ULP, but a residual stream shrinks over many layers"
            )
            return [Finding(NAME, "RESIDUAL-ROUNDING", severity, message, where)]
        requirement, told = _what_it_is(view, actual)
        message = f"residual_out is not x + residual rounded to {dtype}{told}; {place}"
        return [
            Finding(NAME, requirement or seen.special_question or "RESIDUAL-EXACT", "fail", message, where)
        ]
    return []


def _what_it_is(view: View, actual: Tensor) -> tuple[str, str]:
    """(requirement, words) of the known wrong tensor that residual_out is; ("", "") for none or several."""
    x, residual, y = view.present("x"), view.present("residual"), view.values("y")
    y_is_right = view.explanation is not None and bool(view.explanation.conventions)
    known = [
        ("RESIDUAL-WRITTEN", "it still holds the residual that was passed in", residual),
        ("RESIDUAL-WRITTEN" if y_is_right else "RESIDUAL-ADDED", "it equals x, without the residual", x),
        ("RESIDUAL-ADDED", "it equals x + 2 * residual", x + 2 * residual),
        ("RESIDUAL-ADDED", "it equals 2 * x + residual", 2 * x + residual),
    ]
    if y is not None and y.shape == actual.shape:
        known.append(("RESIDUAL-WRITTEN", "it equals y, the normalised output", y))
    dtype = view.problem.residual_dtype
    fits = [(r, words) for r, words, tensor in known if torch.equal(actual, nearest(tensor, dtype))]
    if not fits:
        wrong = actual != nearest(x + residual, dtype)
        if wrong.any() and torch.equal(actual[wrong], nearest(residual, dtype)[wrong]):
            return "RESIDUAL-WRITTEN", ": every wrong element still holds the residual that was passed in"
    if len({r for r, _ in fits}) != 1:
        return "", ""
    return fits[0][0], ": " + " or ".join(words for _, words in fits)
