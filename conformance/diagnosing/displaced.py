"""Do the wrong elements hold the right values of other places? Then an index is wrong, not the arithmetic."""

from __future__ import annotations

import torch
from torch import Tensor

from conformance.numerics.rounding import ulp

_SAMPLES = 48
_FEWEST = 8  # wrong elements; fewer equal something somewhere by chance
_PLACES = 512  # where the first wrong value may belong, at most: more say nothing
_SIGNIFICANT = 1e-3  # of the largest: smaller values are alike everywhere


def displaced(actual: Tensor, wrong: Tensor, expected: Tensor, dtype: str) -> str:
    """A sentence that says by how many rows and columns, or "".

    actual, expected: (rows, columns) float64, wrong bool. dtype: in which actual was stored.
    """
    size = wrong.shape[-1]
    flat, right = actual.flatten(), expected.flatten()
    at = (wrong.flatten() & flat.isfinite()).nonzero()[:, 0]
    at = at[flat[at].abs() > _SIGNIFICANT * right.nan_to_num(0.0, 0.0, 0.0).abs().max()]
    if len(at) < _FEWEST:
        return ""
    at = at[torch.linspace(0, len(at) - 1, min(_SAMPLES, len(at))).round().long()]
    room = 3.0 * ulp(flat[at], dtype) + 1e-5 * flat[at].abs()
    first = ((right - flat[at[0]]).abs() <= room[0]).nonzero()[:, 0]
    if not 0 < len(first) <= _PLACES:
        return ""
    shifts = first - at[0]
    places = at[None, :] + shifts[:, None]  # (shifts, samples)
    inside = (places >= 0) & (places < len(right))
    fits = ((right[places.clamp(0, len(right) - 1)] - flat[at]).abs() <= room) & inside
    # What lies before the tensor or behind it is not there to be compared; most of the samples must be.
    whole = (fits | ~inside).all(-1) & (2 * inside.sum(-1) > len(at)) & (shifts != 0)
    if not bool(whole.any()):
        return ""
    found = int(shifts[whole.nonzero()[0, 0]])
    return f"the wrong elements hold what belongs {_places(found, size)}"


def _places(shift: int, size: int) -> str:
    rows, columns = divmod(abs(shift), size)
    if columns > size // 2:
        rows, columns = rows + 1, columns - size
    way, back = ("after", "before") if shift > 0 else ("before", "after")
    told = [f"{rows} row{'s' * (rows > 1)} {way}"] if rows else []
    told += (
        [f"{abs(columns)} column{'s' * (abs(columns) > 1)} {way if columns > 0 else back}"] if columns else []
    )
    return " and ".join(told) + " theirs"
