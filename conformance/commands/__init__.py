"""Commands of `python -m conformance` with a module of their own, found by scanning.

A module has `add(commands)`: it adds its parser to what `add_subparsers` gave and sets `run`, a function of
the parsed options that returns the exit code. It imports torch only inside `run`, so that the other commands
start at once and work where torch is missing. A ConformanceError raised in `run` is told as an error, exit
code 1.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil


def add_all(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of every module of this folder, in the order of their names."""
    for name in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{name}").add(commands)
