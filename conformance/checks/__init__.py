"""The checks: one file each, found by scanning this folder.

A check module has a NAME, the REQUIREMENTS it speaks about, `applies(seen) -> bool` and
`check(seen) -> list[Finding]`. It looks at a `conformance.seen.Seen` and gives findings; it prints nothing,
allocates nothing on a device but float64 working memory, and never calls the implementation.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from types import ModuleType


@lru_cache(maxsize=1)
def all_checks() -> tuple[ModuleType, ...]:
    """Every check module, by name."""
    found = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found, key=lambda module: module.NAME))
