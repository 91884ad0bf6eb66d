"""What each parameter of a call means, read from its name and its place, never from the function's name.

The table is the field's own vocabulary: each name was seen in the signature of a published RMSNorm or fused
add + RMSNorm, or is the obvious long form of such a name. A name is taken without regard to case, in the
order of the parameters, and the first one that matches a role has it: flash-attn has both `x` and `x1`,
Ascend `x1` and `x2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ROLE_NAMES: dict[str, tuple[str, ...]] = {
    "x": (
        "x", "input", "input_", "inp", "inputs", "input_tensor", "hidden_states", "hidden_state", "hidden",
        "x1", "self",
    ),
    "residual": (
        "residual", "r", "res", "x_residual", "residual_in", "residual_input", "skip", "x2", "y",
    ),
    "weight": ("weight", "w", "gamma", "weights"),
    "eps": ("eps", "epsilon", "variance_epsilon", "norm_eps", "rms_norm_eps", "layer_norm_eps"),
    "out": ("out", "output", "result", "y_out"),
    "residual_out": ("residual_out",),
    "normalized_shape": ("normalized_shape", "normalised_shape"),
    "bias": ("bias",),
    "weight_offset": ("offset", "weight_offset", "weight_bias"),
    "zero_centered": ("zero_centered", "zero_centered_weight", "zero_centered_gamma", "gemma", "gemma_norm"),
}  # fmt: skip

ROLE_OF = {name: role for role, names in ROLE_NAMES.items() for name in names}

SWITCHED_ON_WITH_RESIDUAL = ("prenorm", "add_back")
"""Switches without which the summed residual does not come back; True in the fused modes."""

IN_PLACE = ("in_place", "inplace")
"""Switches that announce overwriting, where they are on by default."""

OFF_WHEN_REQUIRED: dict[str, Any] = {
    "prenorm": False, "add_back": False, "in_place": False, "inplace": False,
    "residual_in_fp32": False, "memory_efficient": False, "residual_dtype": None, "out_dtype": None,
}  # fmt: skip
"""What a switch is given where it has no default and nothing else decides it."""


@dataclass(frozen=True)
class Argument:
    """One parameter as a signature or a schema shows it."""

    name: str
    required: bool = True
    keyword: bool = False  # can only be passed by name
    default: Any = None
    nullable: bool = False  # None is allowed, by its default or its annotation
    written: bool = False  # an operator schema marks it as overwritten


def assign(arguments: Sequence[Argument]) -> dict[str, str]:
    """Return the role of each parameter that has one, by its name: {"hidden_states": "x", ...}."""
    roles: dict[str, str] = {}
    for position, argument in enumerate(arguments):
        name = argument.name.lower()
        role = _role_of_y(arguments, position) if name == "y" else ROLE_OF.get(name)
        if role is not None and role not in roles.values():
            roles[argument.name] = role
    return roles


def _role_of_y(arguments: Sequence[Argument], position: int) -> str:
    """`y` is the second summand beside x (xformers), and an output before x or among the options.

    What it is directly behind x can also be an output; `readings.choose` tells the two apart by value.
    """
    names = [argument.name.lower() for argument in arguments]
    before = [ROLE_OF.get(name) for name in names[:position]]
    summands = [name for name in names if name != "y" and ROLE_OF.get(name) == "residual"]
    if "x" not in before or summands:
        return "out"
    return "residual" if before[-1] == "x" or arguments[position].required else "out"
