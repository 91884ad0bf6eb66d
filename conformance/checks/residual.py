"""Check residual_out: exactly the fp32 sum rounded once to nearest even. One sum needs no tolerance."""

import torch

from conformance.model import Finding
from conformance.numerics import accuracy
from conformance.seen import Seen

NAME = "residual"
REQUIREMENTS = ("RESIDUAL-EXACT", "RESIDUAL-ROUNDING", "RESIDUAL-WRITTEN")


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
        requirement, told = "RESIDUAL-EXACT", ""
        residual, x = view.present("residual"), view.present("x")
        if torch.equal(actual, residual) and bool(x.any()):
            requirement, told = "RESIDUAL-WRITTEN", ": it still holds the residual that was passed in"
        elif torch.equal(actual, x):
            requirement, told = "RESIDUAL-EXACT", ": it equals x, without the residual"
        elif (y := view.values("y")) is not None and torch.equal(actual, y):
            requirement, told = "RESIDUAL-WRITTEN", ": it equals y, the normalised output"
        message = f"residual_out is not x + residual rounded to {dtype}{told}; {place}"
        return [Finding(NAME, requirement, "fail", message, where)]
    return []
