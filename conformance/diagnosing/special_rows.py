"""Faults of special rows: what a zero row, a NaN or an Inf became, and NaNs that came from nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from conformance.numerics.conventions import Problem

ZERO_ROW, _NONFINITE = "SPECIAL-ZERO-ROW", "SPECIAL-NONFINITE"
_LARGEST_HALF = 65504.0


def special_matches(problem: Problem, y: Tensor, wrong: Tensor) -> Iterator[tuple[str, str, str]]:
    """(name, requirement, sentence) of what the wrong elements have in common, if it is their kind or their
    row."""
    source = problem.x if problem.residual is None else problem.x + problem.residual
    finite = source.isfinite().all(-1, keepdim=True)
    zero = (source == 0).all(-1, keepdim=True)
    if _only(wrong, zero):
        if bool((wrong <= ~y.isfinite()).all()):
            yield (
                "zero_row_nonfinite",
                "SPECIAL-ZERO-ROW",
                "a row of zeros becomes NaN or Inf, but should be zeros",
            )
        else:
            yield "zero_row_wrong", ZERO_ROW, "a row of zeros does not become zeros"
    elif _only(wrong, ~finite):
        if bool(y[wrong].isfinite().all()):
            yield "nonfinite_lost", _NONFINITE, "a NaN or Inf of the input is lost: finite values come out"
        else:
            yield (
                "nonfinite_wrong",
                _NONFINITE,
                "a row with a NaN or Inf in it holds the wrong kind of values",
            )
    elif overflows(problem, y, wrong):
        yield (
            "overflows_half",
            "RANGE-LARGE",
            (
                "values are lost (0, NaN or Inf) only where a square, a sum or a product is beyond "
                "what float16 holds"
            ),
        )
    elif bool(y[wrong].isnan().all()) and bool(wrong[finite.expand_as(wrong)].any()):
        if bool(finite.all()):
            yield "nan_from_finite", _NONFINITE, "y holds NaN although every input is finite"
        else:
            yield "nan_spreads", _NONFINITE, "a NaN or Inf of one row reaches other rows"


def overflows(problem: Problem, y: Tensor, wrong: Tensor) -> bool:
    """Whether what is wrong was lost to the range of float16: whole rows whose sum of squares is beyond it,
    or single elements of which the square or the product with the weight is."""
    if "float16" not in (problem.x_dtype, problem.y_dtype) or not bool(wrong.any()):
        return False
    lost = ~y.isfinite() | (y == 0)
    if not bool(lost[wrong].all()):
        return False
    source = problem.x if problem.residual is None else problem.x + problem.residual
    size = source.abs() if problem.weight is None else source.abs() * problem.weight.abs().clamp_min(1.0)
    beyond = (source.square() > _LARGEST_HALF) | (size > _LARGEST_HALF)
    rows = (source.square().sum(-1) > _LARGEST_HALF) & (lost | (source == 0)).all(-1)
    return bool((rows[:, None] | beyond)[wrong].all())


def _only(wrong: Tensor, rows: Tensor) -> bool:
    """Whether there are such rows, and every wrong element lies in one."""
    return bool(rows.any()) and not bool((wrong & ~rows).any())
