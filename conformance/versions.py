"""The oldest versions that the suite supports, and a clear message where something older is installed."""

from __future__ import annotations

import re
import sys
from importlib import metadata

PYTHON = (3, 10)
OLDEST = {"torch": (2, 6), "triton": (3, 2), "numpy": (1, 26), "pytest": (8, 2)}
"""triton may be absent: then nothing that needs it can be loaded, and everything else works."""


def unsupported() -> str:
    """What is too old or missing, and what to install, in words; "" where all is well."""
    if sys.version_info[:2] < PYTHON:
        return f"Python {sys.version.split()[0]} is too old: use {PYTHON[0]}.{PYTHON[1]} or newer"
    for name, oldest in OLDEST.items():
        wanted = ".".join(map(str, oldest))
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "triton":
                continue
            return f"{name} is not installed: pip install '{name}>={wanted}'"
        if parsed(found) < oldest:
            return f"{name} {found} is too old: pip install '{name}>={wanted}'"
    return ""


def parsed(version: str) -> tuple[int, ...]:
    """The first two numbers of a version: "2.11.0+cu130" gives (2, 11)."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])
