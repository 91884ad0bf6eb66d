"""The rounding conventions of correct backwards, and the problem that one is tried on.

Correct backwards differ in where they round, and each combination is a named convention:

- norm_input, fused only: the sum that the backward reads back, exact, rounded or mixed. It is free of the
  forward's: who normalises the exact sum has only the stored one in the backward;
- rounds_a: a = dy * weight is rounded to x's dtype (eager operations do it), or kept in fp32;
- the gradient of residual_out: added once in fp32, or to a norm's part that was rounded first;
- in dweight: x_hat rounded to x's dtype or not, and its product with dy rounded to x's dtype or not.

With a weight_offset there is one more: weight + offset in fp32, or rounded to the weight's dtype first.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from torch import Tensor

from conformance.numerics.conventions import Problem
from conformance.numerics.oracle import NORM_INPUTS
from conformance.numerics.rounding import torch_dtype

HALF = ("float16", "bfloat16")


@dataclass(frozen=True)
class GradientProblem:
    """One backward call's stored inputs as exact float64 copies, and the dtypes of its gradients.

    forward holds x, residual, weight, eps and weight_offset. dy and dresidual_out are (n_rows, hidden_size);
    None says that no gradient of that output arrives. dresidual_dtype and dweight_dtype say nothing where
    there is no residual or no weight. Raises ValueError where shapes do not fit together, a dtype is unknown,
    or dresidual_out comes without a residual.
    """

    forward: Problem
    dy: Tensor | None
    dresidual_out: Tensor | None
    dx_dtype: str
    dresidual_dtype: str
    dweight_dtype: str

    def __post_init__(self) -> None:
        shape = self.forward.x.shape
        for name, tensor in (("dy", self.dy), ("dresidual_out", self.dresidual_out)):
            if tensor is None:
                continue
            if tensor.shape != shape:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, but should be x's, {tuple(shape)}")
            if tensor.dtype != torch_dtype("float64"):
                raise ValueError(f"{name} has dtype {tensor.dtype}, but should be a float64 copy")
        if self.dresidual_out is not None and not self.forward.fused:
            raise ValueError("dresidual_out is given without a residual, but should be None for a plain norm")
        torch_dtype(self.dx_dtype)
        if self.forward.fused:
            torch_dtype(self.dresidual_dtype)
        if self.forward.weight is not None:
            torch_dtype(self.dweight_dtype)

    @property
    def n_rows(self) -> int:
        return self.forward.n_rows

    @property
    def hidden_size(self) -> int:
        return self.forward.hidden_size

    def rows(self, start: int, stop: int) -> GradientProblem:
        """The same problem for rows start to stop - 1 alone; its tensors are views."""
        dy = None if self.dy is None else self.dy[start:stop]
        added = None if self.dresidual_out is None else self.dresidual_out[start:stop]
        return replace(self, forward=self.forward.rows(start, stop), dy=dy, dresidual_out=added)

    def dtype_of(self, which: str) -> str:
        """The dtype of `which`: dx or dresidual. Raises ValueError for another name, or where there is no
        residual."""
        if which == "dx":
            return self.dx_dtype
        if which != "dresidual":
            raise ValueError(f"which is {which!r}, but should be 'dx' or 'dresidual'")
        if not self.forward.fused:
            raise ValueError("the problem has no residual, so it has no dresidual; ask for 'dx'")
        return self.dresidual_dtype


@dataclass(frozen=True)
class DxConvention:
    """One way of rounding dx or dresidual. norm_input and norm_rounded are for the fused add.

    norm_rounded: the norm's part is rounded to the dtype of "x" or of the "residual" before dresidual_out is
    added; None: added once, in fp32. rounds_total: the total is rounded to residual_out's dtype before it
    gets its own.
    """

    rounds_a: bool
    norm_input: str | None = None
    rounds_weight: bool = False
    norm_rounded: str | None = None
    rounds_total: bool = False

    @property
    def name(self) -> str:
        words = [] if self.norm_input is None else [self.norm_input.replace("_", " ")]
        words.append("a rounded" if self.rounds_a else "a in fp32")
        if self.rounds_weight:
            words.append("rounded weight")
        if self.norm_input is not None:
            added = {
                None: "added once",
                "x": "added after rounding",
                "residual": "added after rounding to residual's dtype",
            }
            words.append(added[self.norm_rounded])
        if self.rounds_total:
            words.append("total in residual_out's dtype")
        return ", ".join(words)

    def roundings(self, problem: GradientProblem) -> tuple[str | None, str | None]:
        """The 16-bit dtypes that the norm's part and the total pass through; None where neither does."""
        forward = problem.forward
        dtypes = {None: None, "x": forward.x_dtype, "residual": forward.residual_dtype}
        norm = dtypes[self.norm_rounded]
        total = forward.residual_dtype if self.rounds_total else None
        return (norm if norm in HALF else None, total if total in HALF else None)

    def effect(self, problem: GradientProblem, which: str) -> tuple[object, ...]:
        """Conventions with the same effect on a problem differ in name only, and are judged once."""
        norm, total = self.roundings(problem)
        if problem.dy is None:
            return (total,)  # the norm's part is zero, whatever it is rounded to
        own = problem.dtype_of(which)
        steps: tuple[str | None, ...] = (norm, total)
        if problem.dresidual_out is None:
            passed = [dtype for dtype in (norm, total, own) if dtype is not None]
            steps = tuple(dtype for dtype, _ in itertools.groupby(passed))
        rounds_a = self.rounds_a and problem.forward.weight is not None
        return (self.norm_input, rounds_a, self.rounds_weight, steps)


@dataclass(frozen=True)
class DweightConvention:
    """One way of rounding the terms of dweight. norm_input is None for the plain norm."""

    rounds_x_hat: bool
    rounds_product: bool
    norm_input: str | None = None

    @property
    def name(self) -> str:
        words = [] if self.norm_input is None else [self.norm_input.replace("_", " ")]
        words.append("x_hat rounded" if self.rounds_x_hat else "x_hat in fp32")
        words.append("product rounded" if self.rounds_product else "product in fp32")
        return ", ".join(words)


def dx_conventions(problem: GradientProblem, which: str = "dx") -> tuple[DxConvention, ...]:
    """The conventions of dx or dresidual that these dtypes can tell apart, the likeliest first.

    Which gradients arrive does not change the list: over the runs of one dtype the names are the same.
    """
    forward, own = problem.forward, problem.dtype_of(which)
    adds: list[tuple[str | None, bool]] = [(None, False)]
    if forward.fused:
        rounded: list[str | None] = [None]
        if forward.x_dtype in HALF:
            rounded.append("x")
        if forward.residual_dtype in HALF and forward.residual_dtype != forward.x_dtype:
            rounded.append("residual")
        total_differs = forward.residual_dtype in HALF and forward.residual_dtype != own
        adds = list(itertools.product(rounded, (False, True) if total_differs else (False,)))
    offset = forward.weight is not None and forward.weight_offset != 0.0 and forward.weight_dtype in HALF
    return tuple(
        DxConvention(rounds_a, norm_input, rounds_weight, norm_rounded, rounds_total)
        for norm_rounded, rounds_total in adds
        for rounds_weight in ((False, True) if offset else (False,))
        for rounds_a in ((False, True) if forward.x_dtype in HALF else (False,))
        for norm_input in (NORM_INPUTS if forward.fused else (None,))
    )


def dweight_conventions(problem: GradientProblem) -> tuple[DweightConvention, ...]:
    """The conventions of dweight that these dtypes can tell apart, the likeliest first."""
    axis = (False, True) if problem.forward.x_dtype in HALF else (False,)
    return tuple(
        DweightConvention(rounds_x_hat, rounds_product, norm_input)
        for rounds_product in axis
        for rounds_x_hat in axis
        for norm_input in (NORM_INPUTS if problem.forward.fused else (None,))
    )
