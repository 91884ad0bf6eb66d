"""One wrong element, as a finding shows it: where it is, what it is, what it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

SHOWN = 8  # wrong elements that a report lists


@dataclass(frozen=True)
class Wrong:
    """One element outside what is allowed. `index` is (row, column), rows being the flattened leading
    dims."""

    index: tuple[int, ...]
    actual: float
    expected: float
    low: float
    high: float

    def where(self, tensor: str = "y") -> dict[str, object]:
        """For `model.Finding.where`: non-finite numbers as the strings nan, inf, -inf."""
        return {
            "tensor": tensor,
            "index": list(self.index),
            "actual": number(self.actual),
            "expected": number(self.expected),
            "low": number(self.low),
            "high": number(self.high),
        }


def number(value: float) -> float | str:
    """A number as strict JSON holds it: itself where finite, else the string nan, inf or -inf."""
    return value if value - value == 0 else str(value)


def first_wrong(
    outside: Tensor, describe: Callable[[tuple[int, ...]], Wrong], limit: int = SHOWN
) -> list[Wrong]:
    """`describe` of the first `limit` True elements of `outside`, in row-major order."""
    return [describe(tuple(int(i) for i in index)) for index in outside.nonzero()[:limit]]
