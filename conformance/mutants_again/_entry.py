"""What a second implementation of a fault is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Again:
    """The fault of a mutant in another form.

    mutant: its name; what the fault breaks is that mutant's label. says: a regular expression that is found
    in a sentence of the report which states this fault, and in no other; "" where no known formula is it.
    functions: by name, as a mutant has them. modes: those to ask, where they are not the mutant's own.
    """

    mutant: str
    says: str
    functions: Mapping[str, Callable[..., Any]]
    modes: tuple[str, ...] = ()
