"""Variants: right implementations of many forms, none of which the suite may accuse.

A mutant shows what the suite catches; a variant shows what it leaves in peace. Together they cover the
rounding conventions, the orders in which a sum may be taken, the ways to a reciprocal root, and the forms of
a call: functional, in place, a module, other parameter names, a preallocated output, clean refusals; and for
training the forms of a backward: autograd through plain operations, autograd functions, explicit functions,
what is saved, how dweight is summed up. One is forward only. Each runs like any implementation:
`pytest --impl=variant:pairwise_sum`.

A module has a docstring, one or more of the functions that a mutant may have (or IMPLEMENTATION, a declared
one), and these constants, the last where it applies:

    CONVENTION   fusion mode -> the name of the rounding convention that the suite should find in 16 bits
    REFUSES      what it refuses, cleanly and everywhere alike, in words of `Run.features` or "x:float32"
    WARNS        requirements of level SHOULD that it does not meet: a warning for each, never a fail

The gradients of every variant are right, or it has none: then no output requires a gradient.

A file whose name starts with an underscore is not a variant. Adding a variant is adding a file.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """The names of all variants, sorted: every module here that is not private."""
    return tuple(sorted(f.stem for f in FOLDER.glob("*.py") if not f.stem.startswith("_")))


def warns(name: str) -> tuple[str, ...]:
    """The requirements that a variant should be warned for, read from its source without importing it.

    Raises KeyError for an unknown name.
    """
    if name not in names():
        raise KeyError(f"no variant is called {name!r}; known: {', '.join(names())}")
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "WARNS":
            return tuple(ast.literal_eval(node.value))
    return ()


def load(name: str) -> ModuleType:
    """Import a variant by name. Raises KeyError for an unknown name."""
    if name not in names():
        raise KeyError(f"no variant is called {name!r}; known: {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")
