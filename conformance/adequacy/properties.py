"""Every property, the most basic first: one that is `beyond` another stands after it or is tried after it."""

from __future__ import annotations

from conformance.adequacy import calls, sizes, values
from conformance.adequacy.property import Property

PROPERTIES: tuple[Property, ...] = (
    *values.WEIGHT, *values.ROWS, *values.MAGNITUDES, *values.RESIDUAL,
    *sizes.SIZES, *sizes.DTYPES, *sizes.LAYOUTS, *calls.CALLS, *calls.TRAINING,
)  # fmt: skip


def named(name: str) -> Property:
    """One property. Raises KeyError, with what there is."""
    for one in PROPERTIES:
        if one.name == name:
            return one
    raise KeyError(f"no property is called {name!r}; there is {', '.join(p.name for p in PROPERTIES)}")
