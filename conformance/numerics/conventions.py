"""The rounding conventions that correct implementations follow, and the problem that one is tried on.

Correct kernels differ in three choices, and each combination is a named convention:

- norm_input, fused only: the norm of the exact fp32 sum, of the sum as stored (rounded), or mixed (the
statistic of the
  exact sum, applied to the stored one);
- rounds_x_hat: x_hat is rounded to x's dtype before it meets the weight (two roundings), or not (one);
- how stores round: to nearest even, or, which fails the strict grade, toward zero (truncating).

With a weight_offset there is a fourth: weight + offset in fp32, or rounded to the weight's dtype first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor, device

from conformance.numerics.oracle import NORM_INPUTS
from conformance.numerics.rounding import torch_dtype

_FIRST = 1 << 13  # elements of the first chunk: most conventions fall there, cheaply
_CHUNK = {"cpu": 1 << 16}  # elements of the others: float64 intermediates that stay in the cache
_CHUNK_DEVICE = 1 << 22  # a GPU's: wide enough to fill it, few enough that intermediates stay under a GiB


@dataclass(frozen=True)
class Problem:
    """One forward call's stored inputs as exact float64 copies, and the dtypes that its roundings go to.

    x and residual are (n_rows, hidden_size), weight is (hidden_size,); residual None is the plain norm,
    weight None is no weight. residual_dtype is the dtype of residual_out. y_dtype is the dtype in which y is
    judged. Raises ValueError where shapes do not fit together or a dtype is unknown.
    """

    x: Tensor
    residual: Tensor | None
    weight: Tensor | None
    eps: float
    weight_offset: float
    x_dtype: str
    residual_dtype: str
    weight_dtype: str
    y_dtype: str

    def __post_init__(self) -> None:
        if self.x.dim() != 2:
            raise ValueError(f"x has shape {tuple(self.x.shape)}, but should be (n_rows, hidden_size)")
        if self.residual is not None and self.residual.shape != self.x.shape:
            raise ValueError(
                f"residual has shape {tuple(self.residual.shape)}, but should be x's, {tuple(self.x.shape)}"
            )
        if self.weight is not None and self.weight.shape != self.x.shape[-1:]:
            raise ValueError(
                f"weight has shape {tuple(self.weight.shape)}, but should be ({self.x.shape[-1]},)"
            )
        for tensor in (self.x, self.residual, self.weight):
            if tensor is not None and tensor.dtype != torch_dtype("float64"):
                raise ValueError(f"a tensor has dtype {tensor.dtype}, but should be a float64 copy")
        torch_dtype(self.x_dtype)
        torch_dtype(self.y_dtype)
        if self.residual is not None:
            torch_dtype(self.residual_dtype)
        if self.weight is not None:
            torch_dtype(self.weight_dtype)

    @property
    def n_rows(self) -> int:
        return self.x.shape[0]

    @property
    def hidden_size(self) -> int:
        return self.x.shape[1]

    @property
    def fused(self) -> bool:
        return self.residual is not None

    def rows(self, start: int, stop: int) -> Problem:
        """The same problem for rows start to stop - 1 alone; its tensors are views."""
        residual = None if self.residual is None else self.residual[start:stop]
        return replace(self, x=self.x[start:stop], residual=residual)


@dataclass(frozen=True)
class Convention:
    """One way of rounding. `norm_input` is None for the plain norm."""

    rounds_x_hat: bool
    norm_input: str | None = None
    truncates_y: bool = False
    truncates_sum: bool = False
    rounds_weight: bool = False

    @property
    def truncating(self) -> bool:
        """Whether any store rounds toward zero: named, and failed by the strict grade."""
        return self.truncates_y or self.truncates_sum

    @property
    def name(self) -> str:
        words = ["two roundings" if self.rounds_x_hat else "one rounding"]
        if self.norm_input is not None:
            words.append(self.norm_input.replace("_", " "))
        if self.rounds_weight:
            words.append("rounded weight")
        stores_sum = self.norm_input in ("rounded_sum", "mixed")
        if self.truncates_y and self.truncates_sum is stores_sum:
            words.append("truncating")
        elif self.truncates_y:
            words.append("truncating y")
        elif self.truncates_sum:
            words.append("truncating the sum")
        return ", ".join(words)


def conventions(fused: bool, *, offset: bool = False) -> tuple[Convention, ...]:
    """Every convention of an op, the nearest-even ones first, the likeliest first among those.

    `offset`: the op has a weight_offset, which may be added in the weight's dtype.
    """
    found = []
    for truncates_y, truncates_sum in ((False, False), (True, True), (True, False), (False, True)):
        for rounds_weight in (False, True) if offset else (False,):
            for rounds_x_hat in (False, True):
                for norm_input in NORM_INPUTS if fused else (None,):
                    stores_sum = norm_input in ("rounded_sum", "mixed")
                    if truncates_sum and not stores_sum:
                        if not truncates_y:
                            continue
                        truncates_sum_here = False
                    elif truncates_y and not truncates_sum and not stores_sum:
                        continue  # the same convention as (True, True) where no sum is stored
                    else:
                        truncates_sum_here = truncates_sum
                    found.append(
                        Convention(rounds_x_hat, norm_input, truncates_y, truncates_sum_here, rounds_weight)
                    )
    return tuple(found)


def convention_named(name: str) -> Convention:
    """The convention of that name. Raises ValueError where there is none."""
    for fused in (False, True):
        for convention in conventions(fused, offset=True):
            if convention.name == name:
                return convention
    raise ValueError(
        f"convention is {name!r}, but should be a name like 'one rounding' or 'two roundings, exact sum'"
    )


def candidates_for(problem: Problem) -> tuple[Convention, ...]:
    """The conventions that can differ on this problem: where a rounding does nothing, its variant is left
    out."""
    offset = (
        problem.weight is not None
        and problem.weight_offset != 0.0
        and problem.weight_dtype in ("float16", "bfloat16")
    )
    found = []
    for convention in conventions(problem.fused, offset=offset):
        stored = [problem.y_dtype] + [problem.x_dtype] * convention.rounds_x_hat
        if convention.truncates_y and not any(dtype in ("float16", "bfloat16") for dtype in stored):
            continue
        if convention.truncates_sum and problem.residual_dtype not in ("float16", "bfloat16"):
            continue
        found.append(convention)
    return tuple(found)


def row_chunks(problem: Problem) -> Iterator[tuple[int, int]]:
    """(start, stop) of runs of rows small enough to be judged at once, a small run first; every row once."""
    size, start = _FIRST, 0
    while start < problem.n_rows:
        stop = min(problem.n_rows, start + max(1, size // problem.hidden_size))
        yield start, stop
        start, size = stop, chunk_elements(problem.x.device)


def chunk_elements(where: device) -> int:
    """How many elements are judged at once on a device."""
    return _CHUNK.get(where.type, _CHUNK_DEVICE)
