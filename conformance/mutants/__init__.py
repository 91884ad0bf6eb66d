"""Mutants: wrong implementations on purpose, the yardstick of this suite.

A mutant is one module of this folder with one fault. A suite that lets one pass would let the same fault
pass in a user's kernel; a suite that names the wrong requirement would send its author looking in the wrong
place. Both are measured (`python -m conformance score`), and each mutant runs like any implementation:
`pytest --impl=mutant:eps_outside`.

A module has a docstring (the fault, then why usual tests miss it), one or more of the functions
`rms_norm(x, weight, eps)`, `fused_add_rms_norm(x, residual, weight, eps)` (returns y and residual_out) and
`fused_add_rms_norm_(x, residual, weight, eps)` (in place, returns None), and four constants:

    BREAKS    the requirement of cases/requirements.yaml that a failure must be named by
    SOURCE    where the fault comes from: a line of the specification, or a public report such as B09
    TRIGGER   the smallest input that shows it
    NEEDS     "cpu" or "gpu"

A mutant of the backward has a right forward and one fault in its gradients: it takes what is right from
`_gradient` (plain torch, piece by piece), `_tile_gradient` (for kernels) or `_explicit` (functions without
autograd), or breaks a requirement that only a training run asks.

A file whose name starts with an underscore is not a mutant: `_formula` and `_tile`, and those three, hold
what is right, so that each mutant shows nothing but its fault. Adding a mutant is adding a file.
"""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent

LABELS = ("BREAKS", "SOURCE", "TRIGGER", "NEEDS")

FUNCTIONS = {
    "rms_norm": "none",
    "fused_add_rms_norm": "residual",
    "fused_add_rms_norm_": "residual_in_place",
}
"""The functions that a mutant or variant may have, and the fusion mode that each answers for."""

_BACKWARD_PARTS = {"_gradient", "_tile_gradient", "_explicit"}
_BACKWARD_FAMILIES = ("DX", "DRESIDUAL", "DWEIGHT", "GRADMODE")


@dataclass(frozen=True)
class Label:
    """What a mutant says of itself."""

    name: str
    fault: str  # the first sentence of its docstring
    breaks: str
    source: str
    trigger: str
    needs: str
    modes: tuple[str, ...]
    backward: bool = False  # whether its fault is one of the backward, and its forward right


def names() -> tuple[str, ...]:
    """The names of all mutants, sorted: every module here that is not private."""
    return tuple(sorted(f.stem for f in FOLDER.glob("*.py") if not f.stem.startswith("_")))


def label(name: str) -> Label:
    """Read a mutant's label from its source, without importing it: some do harm when they are imported.

    Raises KeyError for an unknown name, and ValueError where a constant is missing or is not a plain string.
    """
    if name not in names():
        raise KeyError(f"no mutant is called {name!r}; known: {', '.join(names())}")
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            target, value = node.targets[0], node.value.value
            if isinstance(target, ast.Name) and target.id in LABELS and isinstance(value, str):
                found[target.id] = value
    missing = [word for word in LABELS if word not in found]
    if missing:
        raise ValueError(f"mutant {name}: {', '.join(missing)} should be a plain string; add it")
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    fault = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
    modes = tuple(mode for function, mode in FUNCTIONS.items() if function in defined)
    backward = found["BREAKS"].split("-")[0] in _BACKWARD_FAMILIES or bool(_imported(tree) & _BACKWARD_PARTS)
    return Label(
        name, fault, found["BREAKS"], found["SOURCE"], found["TRIGGER"], found["NEEDS"], modes, backward
    )  # fmt: skip


def _imported(tree: ast.Module) -> set[str]:
    """What a module imports from this package."""
    lines = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == __name__]
    return {alias.name for line in lines for alias in line.names}


def load(name: str) -> ModuleType:
    """Import a mutant by name. Do it in a process of its own: a mutant may patch, exit or abort.

    Raises KeyError for an unknown name.
    """
    if name not in names():
        raise KeyError(f"no mutant is called {name!r}; known: {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")
