"""Where an implementation comes from: the name and the version of its installed distribution."""

from __future__ import annotations

from importlib import metadata
from types import ModuleType
from typing import NamedTuple


def version_of(distribution: str) -> str:
    """Return the version of an installed distribution, "" where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


class Facts(NamedTuple):
    """What is known about where an implementation comes from; "" is unknown."""

    package: str = ""
    version: str = ""


UNKNOWN = Facts()


def facts_of_module(module: ModuleType) -> Facts:
    """Return package and version for the module of a user's implementation, as far as they are known."""
    top = module.__name__.partition(".")[0]
    owners = set(metadata.packages_distributions().get(top, []))
    if len(owners) == 1:
        owner = owners.pop()
        return Facts(owner, version_of(owner))
    version = getattr(module, "__version__", "")
    return Facts(version=version if isinstance(version, str) else "")
