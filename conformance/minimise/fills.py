"""Plainer values, as far as the accuracy rule holds for them.

The rule's bounds leave sums of many equal terms out (docs/accuracy.md): their roundings all have one sign, so
a right kernel that adds one after the other may leave the bound. `fair` keeps such runs from being asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from conformance.loading.fills import SEEDS
from conformance.minimise.simpler import Step, first_that_fails
from conformance.model import Fill, Run

KINDS = ("zeros", "constant", "uniform", "bell")
"""From the plainest on."""

FEW = 64
"""So many equal terms stay inside the bound in any order: (n - 1) roundings of one sign, at most n·u of the
sum, against 8·sqrt(n)·u (for a mean square both are halved)."""

EXACT = 1 << 24
"""fp32 holds every integer up to here."""

_PLAIN: dict[str, Any] = vars(Fill())
_EXTRAS = ("put", "zero_rows", "zero_every", "last_column", "row_scales", "mean", "scale")


def complexity(fill: Fill, tensor: str) -> tuple[int, int, bool]:
    """How far a fill is from plain; every step lowers it."""
    extras = sum(getattr(fill, name) != _PLAIN[name] for name in _EXTRAS)
    listed = len(fill.put) + len(fill.zero_rows) + len(fill.row_scales)
    return KINDS.index(fill.kind) + 4 * extras, listed, fill.seed != SEEDS[tensor]


def plainer(fill: Fill, tensor: str) -> Iterator[Fill]:
    """Fills of lower complexity, the plainest first."""
    seed = SEEDS[tensor]
    offered = [Fill("zeros", seed), Fill("constant", seed)]
    bare = replace(fill, seed=seed, scale=1.0, mean=0.0)
    offered += [replace(bare, kind="zeros"), replace(bare, kind="constant"), Fill("bell", seed)]
    offered += [replace(fill, seed=seed, kind="constant"), bare]
    offered += [replace(fill, **{name: _PLAIN[name]}) for name in _EXTRAS]
    offered += [replace(fill, put=_without(fill.put, i)) for i in range(len(fill.put))]
    offered += [replace(fill, zero_rows=_without(fill.zero_rows, i)) for i in range(len(fill.zero_rows))]
    if len(fill.row_scales) == 1 and fill.mean == 0:
        offered.append(replace(fill, scale=fill.scale * fill.row_scales[0], row_scales=()))
    offered.append(replace(fill, seed=seed))
    now = complexity(fill, tensor)
    yield from (other for other in dict.fromkeys(offered) if complexity(other, tensor) < now)


def _without(entries: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return entries[:index] + entries[index + 1 :]


def _fills(run: Run) -> Iterator[Run]:
    """One tensor's values plainer, the weight's first: those of x show most."""
    yield from _one_row_scale(run)
    for tensor in sorted(run.fills, key=("weight", "dresidual_out", "dy", "residual", "x").index):
        for fill in plainer(run.fills[tensor], tensor):
            yield replace(run, fills={**run.fills, tensor: fill})


def _one_row_scale(run: Run) -> Iterator[Run]:
    """All rows with the scales of one of them, so that this row can become the only one."""
    longest = max((len(fill.row_scales) for fill in run.fills.values()), default=0)
    for row in range(longest if longest > 1 else 0):
        yield replace(
            run,
            fills={
                tensor: replace(fill, row_scales=(fill.row_scales[row % len(fill.row_scales)],))
                if fill.row_scales
                else fill
                for tensor, fill in run.fills.items()
            },
        )


STEPS: tuple[Step, ...] = (first_that_fails(_fills),)


def fair(run: Run) -> bool:
    """Whether the accuracy rule holds for these values: no long sum of equal terms, unless it is exact."""
    normalised = [_levels(run.fills[t]) for t in ("x", "residual") if t in run.fills]
    flat = [levels for levels in normalised if levels is not None]
    if max(run.hidden_size, run.n_rows) <= FEW or len(flat) < len(normalised):
        return True
    if _levels(run.fills.get("dy", Fill())) not in (None, {0.0}):
        return False  # the terms of dweight, and those of dx's row sum, are equal too
    return run.hidden_size <= FEW or all(_exact(sum(h), run.hidden_size) for h in product(*flat))


def _levels(fill: Fill) -> set[float] | None:
    """The values that most of a tensor's elements have, one a row scale; None where they vary in a row."""
    if fill.kind not in ("zeros", "constant"):
        return None
    value = (fill.scale if fill.kind == "constant" else 0.0) + fill.mean
    return {value * scale for scale in fill.row_scales or (1.0,)}


def _exact(value: float, count: int) -> bool:
    """Whether fp32 adds `count` squares of a value without rounding: they are few small integers, scaled."""
    odd = abs(value.as_integer_ratio()[0])
    while odd and odd % 2 == 0:
        odd //= 2
    return odd * odd * count <= EXACT
