"""Functions made from the text of a signature, and arguments that can be followed through a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def function_of(signature: str, name: str = "f") -> Callable[..., dict[str, Any]]:
    """A function of this signature that returns what it was given."""
    space: dict[str, Any] = {}
    exec(f"def {name}({signature}):\n    return dict(locals())", space)
    return space[name]


GIVEN = {
    "x": torch.zeros(2, 3), "residual": torch.ones(2, 3), "weight": torch.ones(3), "eps": 0.5,
    "out": torch.empty(2, 3), "residual_out": torch.empty(2, 3),
}  # fmt: skip
