"""The faults of the arithmetic mutants a second time, in other forms: the yardstick of the diagnosis.

A diagnosis that was written beside the mutants may know how those sum and round. Here each fault stands in
another form: another order of the sum, two roundings, the sum as it was stored, float64, a backward in other
algebra, Triton for torch. `python -m conformance diagnosis` says how often the true fault is among the first
three that are named, and whether a wrong formula ever stands alone where the truth is another.

A module without an underscore has AGAIN, a tuple of `Again`. What is asked goes through modules of neutral
names, candidate_017 for the 18th: `write` makes one.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

from conformance import mutants
from conformance.errors import ConformanceError
from conformance.model import Call, Implementation, Parameter
from conformance.mutants_again._entry import Again

__all__ = ["Again", "entries", "implementation", "numbers", "write"]

FAMILIES = ("FORMULA", "TAIL", "RESIDUAL", "RANGE", "ACCURACY", "DX", "DRESIDUAL", "DWEIGHT")
"""Families of requirements that a fault of arithmetic breaks."""
_SLOTS = {"rms_norm": ("none", ("x", "weight")),
          "fused_add_rms_norm": ("residual", ("x", "residual", "weight"))}  # fmt: skip


@cache
def entries() -> tuple[Again, ...]:
    """All of them, in the order of the modules' names. A number is the place in this."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return tuple(a for name in names for a in importlib.import_module(f"{__name__}.{name}").AGAIN)


def numbers(names: list[str]) -> list[int]:
    """The numbers of those whose mutant is named, or of all. Raises ConformanceError for an unknown one."""
    known = {again.mutant for again in entries()}
    unknown = [name for name in names if name not in known]
    if unknown:
        told = f"no fault of the name {unknown[0]!r} is implemented a second time."
        raise ConformanceError(told, "Write the name of an arithmetic mutant, such as eps_outside.")
    return [i for i, again in enumerate(entries()) if not names or again.mutant in names]


def implementation(number: int, name: str) -> Implementation:
    """The second implementation of that number as something to put under test, by a neutral name.

    Raises IndexError for a number that there is not.
    """
    again = entries()[number]
    modes = again.modes or mutants.label(again.mutant).modes
    calls: dict[str, Call] = {}
    for function, (mode, tensors) in _SLOTS.items():
        # What a mutant has in place is asked out of place here: the arithmetic is the same.
        if function in again.functions and {mode, f"{mode}_in_place"} & set(modes):
            calls[mode] = _call(again.functions[function], tensors)
    return Implementation(name=name, calls=calls)


def _call(function: Any, tensors: tuple[str, ...]) -> Call:
    parameters = [Parameter(t, t, nullable=t == "weight") for t in tensors]
    parameters.append(Parameter("eps", "eps", required=False))
    known = function.__code__.co_varnames[: function.__code__.co_argcount]
    if "weight_offset" in known:
        parameters.append(Parameter("weight_offset", "weight_offset", required=False, value=0.0))
    returns = ("y", "residual_out") if "residual" in tensors else ("y",)
    return Call(function, tuple(parameters), returns=returns)


def write(number: int, folder: Path) -> str:
    """Write a module of a neutral name that declares the implementation; return what to put after --impl=."""
    name = f"candidate_{number:03d}"
    (folder / f"{name}.py").write_text(
        "from conformance import mutants_again\n"
        "from conformance.hookspecs import hookimpl\n\n\n"
        "@hookimpl\n"
        "def conformance_implementations():\n"
        f'    return [mutants_again.implementation({number}, "{name}:norm")]\n',
        encoding="utf-8",
    )
    return f"{name}:norm"
