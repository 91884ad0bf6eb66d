"""What a check must object to: one wrong implementation, put to one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from small_runs import run

from conformance.model import Run


@dataclass(frozen=True)
class Wrong:
    """One wrong implementation: `right` is the same without the fault, on the same run."""

    check: str
    requirement: str
    function: Any
    run: Run = field(default_factory=run)
    call: dict[str, Any] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)  # fields of the observation, set by hand
    right: Any = None


class Times:
    """A function that does one thing in its first calls and another thing later."""

    def __init__(self, first, later, after: int = 1) -> None:
        self.first, self.later, self.after, self.calls = first, later, after, 0

    def __call__(self, *arguments):
        self.calls += 1
        return (self.first if self.calls <= self.after else self.later)(*arguments)
