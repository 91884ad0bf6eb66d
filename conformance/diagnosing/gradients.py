"""Why a gradient is wrong: every known wrong formula that gives exactly it, and which elements are wrong.

For dx, dresidual and dweight what `diagnosis` does for y: only inputs and gradients are looked at, by the
same intervals that the right formula is judged by, and nothing is reported of a gradient that is right.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from conformance.diagnosing import apart
from conformance.diagnosing.diagnosis import Diagnosis, Match, completed, judged_rows, separating
from conformance.diagnosing.gradient_trial import DweightTrial, DxTrial
from conformance.diagnosing.structure import describe_elements
from conformance.numerics.conventions import row_chunks
from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.gradient_oracle import gradients
from conformance.numerics.gradients import (
    GradientExplanation,
    explain_dweight,
    explain_dx,
    wrong_dweight,
    wrong_dx,
)

_MODERATE = 2.0**10
"""A dweight below this overflows nothing on its way, in any dtype."""
_TINY_WEIGHT = 2.0**-10
"""A weight so much smaller than the largest one leaves few bits of an x_hat that is recovered from y."""


def diagnose_dx(
    problem: GradientProblem, values: Tensor, which: str = "dx", found: GradientExplanation | None = None
) -> Diagnosis:
    """Find what explains dx or dresidual, (n_rows, hidden_size) float64, if the right formula does not.

    `found`: what `explain_dx` said of it, if that is at hand.
    """
    found = found or explain_dx(problem, values, which=which)
    if found.explained or values.numel() == 0:
        return Diagnosis()
    wrong = wrong_dx(problem, values, found.best, which)
    structure = describe_elements(values, wrong, gradients(problem)[0], problem.dtype_of(which))
    judged = _judged(problem)
    matches: list[Match] = []
    notes: tuple[str, ...] = ()
    requirement = None
    if bool((wrong.any(-1) & judged).any()):
        matching = DxTrial(problem, which, values, wrong, judged).matching()
        matches = [Match(c.name, c.requirement, c.sentence) for c, _ in matching]
        believed = [c for c, fits in matching if fits]
        notes = separating([c.name for c in believed], lambda n: apart.of_dx(n, problem))
        best = {c.requirement for c in believed}
        requirement = best.pop() if len(best) == 1 else None
    if not matches:
        matches = _from_dx_structure(problem, which, values, wrong, judged)
        requirement = matches[0].requirement if matches else None
    found_out = completed(Diagnosis(tuple(matches), structure, requirement, notes), which, values, wrong)
    return renamed(found_out, which)


def diagnose_dweight(
    problem: GradientProblem,
    values: Tensor,
    found: GradientExplanation | None = None,
    leading: tuple[int, ...] = (),
) -> Diagnosis:
    """The same for dweight, (hidden_size,) float64. leading: the leading dimensions of x, before they were
    flattened."""
    found = found or explain_dweight(problem, values)
    if found.explained or values.numel() == 0:
        return Diagnosis()
    wrong = wrong_dweight(problem, values, found.best)
    right = gradients(problem)[1]
    structure = describe_elements(values[None], wrong[None], right[None], problem.dweight_dtype)
    matches: list[Match] = []
    notes: tuple[str, ...] = ()
    requirement = None
    if problem.dy is not None and problem.forward.n_rows and bool(_judged(problem).all()):
        matching = DweightTrial(problem, values, wrong, leading).matching()
        matches = [Match(c.name, c.requirement, c.sentence) for c, _ in matching]
        believed = [c for c, fits in matching if fits]
        notes = separating([c.name for c in believed], lambda n: apart.of_dweight(n, problem))
        best = {c.requirement for c in believed}
        requirement = best.pop() if len(best) == 1 else None
    if not matches:
        matches = _from_dweight_structure(problem, values, wrong, right)
        requirement = matches[0].requirement if matches else None
    return completed(Diagnosis(tuple(matches), structure, requirement, notes), "dweight", values, wrong)


def renamed(found: Diagnosis, which: str) -> Diagnosis:
    """A diagnosis of dx as one of `which`: dresidual has a requirement of its own on accuracy."""
    if which == "dx":
        return found

    def own(requirement: str | None) -> str | None:
        return "DRESIDUAL-ACCURACY" if requirement == "DX-ACCURACY" else requirement

    matches = tuple(replace(m, requirement=own(m.requirement) or m.requirement) for m in found.matches)
    return replace(found, matches=matches, requirement=own(found.requirement))


def _judged(problem: GradientProblem) -> Tensor:
    """Rows that a formula can be tried on, (n_rows,): everything about them is finite."""
    judged = judged_rows(problem.forward)
    for tensor in (problem.dy, problem.dresidual_out):
        if tensor is None:
            continue
        for start, stop in row_chunks(problem.forward):
            judged[start:stop] &= tensor[start:stop].isfinite().all(-1)
    return judged


def _from_dx_structure(
    problem: GradientProblem, which: str, values: Tensor, wrong: Tensor, judged: Tensor
) -> list[Match]:
    """What the places and kinds of the wrong elements say where no formula does."""
    weight = problem.forward.weight
    lost = wrong & ~values.isfinite() & judged[:, None]
    if weight is not None and bool((weight == 0).any()) and bool(lost.any()):
        sentence = f"{which} is not finite though every input is, and a weight is 0"
        return [Match("dx_not_finite_at_zero_weights", "DWEIGHT-ZERO-WEIGHTS", sentence)]
    wrong = wrong & judged[:, None]
    rows, columns = wrong.any(-1), wrong.any(0)
    if not bool(rows.any()):
        return []
    if not bool(columns.all()) and _is_tail(columns) and bool(wrong[rows][:, columns].all()):
        count = int(columns.sum())
        sentence = f"the last {count} of {len(columns)} columns of {which} are not computed"
        return [Match("dx_tail_columns", "DX-ROWS", sentence)]
    if not bool(rows.all()) and bool((values[wrong] == 0).all()):
        return [Match("dx_rows_zero", "DX-ROWS", f"{int(rows.sum())} of {len(rows)} rows of {which} are 0")]
    return []


def _from_dweight_structure(
    problem: GradientProblem, values: Tensor, wrong: Tensor, right: Tensor
) -> list[Match]:
    weight = problem.forward.weight
    if weight is not None:
        small = weight.abs() <= weight.abs().max() * _TINY_WEIGHT
        lost = wrong & ~values.isfinite() & right.isfinite()
        if bool(small.any()) and not bool(small.all()) and not bool((wrong & ~small).any()):
            sentence = "dweight is wrong only where the weight is 0 or tiny"
            return [Match("dweight_at_tiny_weights", "DWEIGHT-ZERO-WEIGHTS", sentence)]
        if bool((weight == 0).any()) and bool(lost.any()):
            sentence = "dweight is not finite though every input is, and a weight is 0"
            return [Match("dweight_not_finite_at_zero_weights", "DWEIGHT-ZERO-WEIGHTS", sentence)]
    if bool(values.isnan().any()) and bool((right.isfinite() & (right.abs() < _MODERATE)).all()):
        sentence = (
            "dweight holds NaN though every input is finite: memory that was never set reaches it, such as "
            "partial sums that start from what the allocator left"
        )
        return [Match("dweight_of_unset_memory", "MEM-READ", sentence)]
    if len(values) > 1 and bool((values == values[0]).all()) and bool(values.isfinite().all()):
        sentence = f"every element of dweight is {float(values[0]):.6g}"
        return [Match("dweight_is_one_number", "DWEIGHT-AXES", sentence)]
    if not bool(wrong.all()) and _is_tail(wrong):
        sentence = f"the last {int(wrong.sum())} of {len(wrong)} columns of dweight are not computed"
        return [Match("dweight_tail_columns", "DWEIGHT-ROWS", sentence)]
    return []


def _is_tail(found: Tensor) -> bool:
    """Whether the True elements of a vector are its last ones, one at least."""
    at = found.nonzero()[:, 0]
    return bool(len(at)) and int(at[0]) == len(found) - len(at)
