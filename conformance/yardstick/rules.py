"""What one rule of another suite is made of: a reference in its dtypes, a comparison, a tolerance a dtype.

The comparisons take tensors in the dtypes in which they came, as the tests do: rounding the difference to
bf16 is part of their rule. They return why the tensors differ, or "" where they are close.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Tolerance:
    """|actual - expected| may be atol + rtol * |one of them|; which one is said by the comparison."""

    atol: float
    rtol: float

    def times(self, factor: float) -> Tolerance:
        """The same with atol `factor` times as large."""
        return Tolerance(self.atol * factor, self.rtol)


@dataclass(frozen=True)
class Form:
    """How a reference computes. The defaults: fp32 throughout, x_hat rounded to weight's dtype, y once more.

    work: the dtype of the row and its statistic. sum_in: the dtype of x + residual; "" for x's own, and then
    the rounded sum is normalised. rounds_x_hat: whether x_hat is rounded before it meets the weight. Where
    a weight_offset is asked the weight is applied in `work`, in all of these suites.
    """

    work: str = "float32"
    sum_in: str = "float32"
    rounds_x_hat: bool = True


Compare = Callable[[torch.Tensor, torch.Tensor, Tolerance], str]
"""(what came back, the reference, the tolerance) -> why they differ, or ""."""


@dataclass(frozen=True)
class Rule:
    """How the runs of one case are judged. tolerances: by x's dtype.

    dweight_by_width: whether atol of dweight is multiplied by hidden_size. reads_grad: whether the test takes
    gradients from `.grad`, where autograd adds to what is there, and not from torch.autograd.grad.
    """

    form: Form
    tolerances: Mapping[str, Tolerance]
    close: Compare
    dweight_by_width: bool = False
    reads_grad: bool = False

    def tolerance(self, output: str, dtype: str, hidden_size: int) -> Tolerance:
        """The tolerance of an output (y, residual_out, dx, dresidual, dweight) for x in `dtype`."""
        found = self.tolerances[dtype]
        return found.times(hidden_size) if self.dweight_by_width and output == "dweight" else found


@dataclass(frozen=True)
class Suite:
    """One suite as it was published at a commit. rules: by case id.

    cases: the name of the case file beside this module. elements: shapes of x above it are left out of the
    quick measurement, since no GPU is there. differs: sentences on how ours departs from the published test.
    """

    name: str
    title: str
    url: str
    commit: str
    date: str
    cases: str
    rules: Mapping[str, Rule]
    elements: int
    trains: bool
    differs: tuple[str, ...] = field(default=())


def assert_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> str:
    """As torch.testing.assert_close: shape and dtype, then every element, relative to the reference."""
    if actual.shape != expected.shape:
        return f"shape {tuple(actual.shape)}, not {tuple(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, not {expected.dtype}"
    close = torch.isclose(actual, expected, rtol=tolerance.rtol, atol=tolerance.atol)
    return "" if bool(close.all()) else f"{int((~close).sum())} of {close.numel()} elements not close"


def close_in_promoted_dtype(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> str:
    """Shape, then every element relative to what came back; not the dtype, and a NaN equals a NaN."""
    if actual.shape != expected.shape:
        return f"shape {tuple(actual.shape)}, not {tuple(expected.shape)}"
    away = (expected - actual).abs() > tolerance.atol + tolerance.rtol * actual.abs()
    for special in (torch.isnan, torch.isposinf, torch.isneginf):
        away |= special(actual) ^ special(expected)
    return f"{int(away.sum())} of {away.numel()} elements not close" if bool(away.any()) else ""
