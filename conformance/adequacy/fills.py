"""What the fills of a run say about its values, without making them; and fills with one thing changed.

Mean squares are those of the distributions (a bell has variance 1, uniform 1/3), so a bell of a few columns
is off by its sampling error. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from conformance.model import Fill, Run

_VARIANCE = {"bell": 1.0, "uniform": 1.0 / 3.0, "constant": 0.0, "zeros": 0.0}

_LARGEST = {"bell": 3.5, "uniform": 1.0, "constant": 0.0, "zeros": 0.0}

SUMMED = ("x", "residual")
"""The tensors that make a row: x, and in the fused modes the residual with it."""


def centre(fill: Fill) -> float:
    """The mean of the values, before row_scales."""
    return fill.mean + (fill.scale if fill.kind == "constant" else 0.0)


def one_value(fill: Fill) -> float | None:
    """The value that every element has, or None where they differ; row_scales left aside."""
    value = centre(fill)
    if _VARIANCE[fill.kind] * fill.scale != 0.0 or fill.put or fill.zero_rows:
        return None
    if fill.zero_every and value != 0.0:
        return None
    return value if fill.last_column in (None, value) else None


def lowest(fill: Fill) -> float:
    """The smallest value that the fill can have; NaN and Inf left aside."""
    low = centre(fill) - _LARGEST[fill.kind] * abs(fill.scale)
    named = [0.0] if fill.zero_every else []
    named += [] if fill.last_column is None else [fill.last_column]
    return min([low, *named, *(float(v) for _, _, v in fill.put if not isinstance(v, str))])


def has_zero(fill: Fill) -> bool:
    """Whether elements are 0 on purpose."""
    return bool(
        fill.zero_every
        or fill.last_column == 0.0
        or one_value(fill) == 0.0
        or any(value == 0 for _, _, value in fill.put)
    )


def has_nonfinite(fill: Fill) -> bool:
    """Whether a NaN or an Inf is put somewhere."""
    return any(isinstance(value, str) for _, _, value in fill.put)


def mean_squares(run: Run) -> list[float]:
    """The mean square of each row that is normalised, x or x + residual, as expected; zero rows are 0.

    As many rows as tell all of them apart; [] for a run without rows.
    """
    fills = [run.fills[t] for t in SUMMED if t in run.fills]
    cycles = [f.row_scales or (1.0,) for f in fills]
    found = []
    for row in range(min(run.n_rows, max(map(len, cycles)) * min(map(len, cycles)))):
        scales = [c[row % len(c)] for c in cycles]
        variance = sum(_VARIANCE[f.kind] * (f.scale * s) ** 2 for f, s in zip(fills, scales, strict=True))
        found.append(variance + sum(centre(f) * s for f, s in zip(fills, scales, strict=True)) ** 2)
    cleared = [{r % run.n_rows for r in f.zero_rows} for f in fills] if run.n_rows else []
    return found + [0.0] * bool(cleared and set.intersection(*cleared))


def with_fill(run: Run, tensor: str, **changes: Any) -> Run:
    """The run with some keys of one tensor's fill replaced."""
    return replace(run, fills={**run.fills, tensor: replace(run.fills[tensor], **changes)})


def with_rows(run: Run, **changes: Any) -> Run:
    """The run with some keys replaced in the fills of x and, where there is one, the residual."""
    for tensor in SUMMED:
        run = with_fill(run, tensor, **changes) if tensor in run.fills else run
    return run


def scaled(run: Run, factor: float) -> Run:
    """The run with every value of x and the residual `factor` times as large."""
    return _each(run, lambda f: replace(
        f, scale=f.scale * factor, mean=f.mean * factor,
        last_column=None if f.last_column is None else f.last_column * factor,
    ))  # fmt: skip


def scaled_to(run: Run, mean_square: float) -> Run | None:
    """The run with its largest mean square brought to `mean_square`; None where all rows are 0."""
    largest = max(mean_squares(run), default=0.0)
    return scaled(run, (mean_square / largest) ** 0.5) if largest > 0.0 else None


def _each(run: Run, change: Callable[[Fill], Fill]) -> Run:
    fills = {t: change(f) if t in SUMMED else f for t, f in run.fills.items()}
    return replace(run, fills=fills)


def bell_like(fill: Fill, seed: int, size: float | None = None) -> Fill:
    """A signed bell with the fill's root mean square, or `size`, and its row_scales."""
    if size is None:
        size = (_VARIANCE[fill.kind] * fill.scale**2 + centre(fill) ** 2) ** 0.5 or 1.0
    return Fill("bell", seed, size, row_scales=fill.row_scales)


def spread(values: list[float]) -> float:
    """The largest over the smallest of some mean squares; infinite where a single one is 0."""
    positive = [v for v in values if v > 0.0]
    if not positive or len(positive) < len(values):
        return float("inf") if positive else 1.0
    return max(positive) / min(positive)
