"""What an explanation of a gradient holds, and how what contradicts it is gathered."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from conformance.numerics.accuracy import Worst
from conformance.numerics.elements import SHOWN, Wrong, first_wrong
from conformance.numerics.gradient_conventions import DweightConvention, DxConvention
from conformance.numerics.intervals import Interval, finite_ends
from conformance.numerics.rounding import store, ulp

C = TypeVar("C", DxConvention, DweightConvention)


@dataclass(frozen=True)
class GradientExplanation(Generic[C]):
    """What `explain_dx` or `explain_dweight` found.

    conventions: names of those that explain every element, empty where none does. compared: elements judged;
    0 is never a pass. best: the first explaining convention, or the one that held longest. share: the largest
    share of the allowed real error used, under `best`, beyond its own roundings; 1.0 is the edge of the
    interval. notes: what was accepted and is worth a mention.
    """

    conventions: tuple[str, ...]
    compared: int
    best: C
    share: float = 0.0
    worst: Worst | None = None
    wrong: tuple[Wrong, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def explained(self) -> bool:
        return bool(self.conventions) and self.compared > 0


@dataclass
class Tally:
    """What contradicts one convention, over all chunks."""

    count: int = 0
    shown: list[Wrong] = field(default_factory=list)
    worst: Wrong | None = None
    ulps: float = -1.0
    share: float = 0.0

    def add(self, found: Interval, values: Tensor, outside: Tensor, dtype: str, start: int) -> None:
        """Count the wrong elements of a chunk that starts at row `start`, or of a vector (start 0); keep the
        first few and the furthest."""
        count = int(outside.sum())
        if not count:
            return
        self.count += count
        low, high = finite_ends(found)
        distance = torch.maximum(low - values, values - high) / ulp(found.centre, dtype)
        distance = torch.where(outside, torch.where(distance.isfinite(), distance, torch.inf), -1.0)
        flat = int(distance.argmax())
        furthest = (flat,) if values.dim() == 1 else divmod(flat, values.shape[1])

        def wrong(where: tuple[int, ...]) -> Wrong:
            expected = store(found.centre[where], dtype)
            index = (start + where[0], *where[1:])
            return Wrong(index, float(values[where]), float(expected), float(low[where]), float(high[where]))

        if len(self.shown) < SHOWN:
            self.shown += first_wrong(outside, wrong, SHOWN - len(self.shown))
        if float(distance[furthest]) > self.ulps:
            self.ulps, self.worst = float(distance[furthest]), wrong(furthest)

    def explanation(
        self, names: Iterable[str], compared: int, best: C, notes: tuple[str, ...]
    ) -> GradientExplanation[C]:
        if self.worst is None:
            return GradientExplanation(tuple(names), compared, best, self.share, notes=notes)
        worst = Worst(best.name, self.count, self.worst, self.ulps)
        return GradientExplanation((), compared, best, self.share, worst, tuple(self.shown), notes)


def share_of(values: Tensor, centre: Tensor, rounding: Tensor, error: Tensor, left_out: Tensor) -> float:
    """The largest (|value - centre| - rounding) / error over the elements that are not left out."""
    used = (values - centre).abs_().sub_(rounding).div_(error)
    used = torch.where(left_out | ~used.isfinite(), 0.0, used)
    return max(0.0, float(used.max())) if used.numel() else 0.0


class Elimination(Generic[C]):
    """Conventions, judged chunk by chunk until one has contradicted them: those of one effect together."""

    def __init__(self, tried: Iterable[C], effects: Iterable[Hashable]) -> None:
        self._alike: dict[Hashable, list[C]] = {}
        for convention, effect in zip(tried, effects, strict=True):
            self._alike.setdefault(effect, []).append(convention)
        self.alive: list[C] = [group[0] for group in self._alike.values()]
        self._nearest: C = self.alive[0]

    def drop(self, violations: dict[C, int]) -> None:
        """Take out the alive conventions that a chunk contradicts. `violations` has a number for each."""
        held = [c for c in self.alive if not violations[c]]
        if not held:
            # The last to fall are the nearest, and of those the one with the fewest violations.
            self._nearest = min(self.alive, key=lambda c: violations[c])
        self.alive = held

    @property
    def best(self) -> C:
        return self.alive[0] if self.alive else self._nearest

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all conventions that still stand, with those that only differ in name."""
        return tuple(c.name for group in self._alike.values() if group[0] in self.alive for c in group)
