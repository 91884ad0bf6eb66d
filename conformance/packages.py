"""What the installed distribution of an implementation says of itself: name, version, and a digest of its files."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from types import ModuleType


def version_of(distribution: str) -> str:
    """Return the version of an installed distribution, "" where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def digest_of(distribution: str) -> str:
    """Return "sha256:…" over an installed distribution's own list of files and hashes, "" where it has none.

    Two installations of one wheel have the same digest: the paths of scripts and compiled files, which depend on
    the machine, are left out.
    """
    try:
        record = metadata.distribution(distribution).read_text("RECORD")
    except metadata.PackageNotFoundError:
        return ""
    kept = [
        line for line in (record or "").splitlines()
        if "sha256=" in line and not line.startswith(("..", "/")) and ".dist-info/" not in line
    ]  # fmt: skip
    if not kept:
        return ""
    return "sha256:" + hashlib.sha256("\n".join(sorted(kept)).encode()).hexdigest()


def facts_of_module(module: ModuleType) -> dict[str, str]:
    """Return package and version for the module of a user's implementation, as far as they are known."""
    top = module.__name__.partition(".")[0]
    owners = metadata.packages_distributions().get(top, [])
    if len(set(owners)) == 1:
        return {"package": owners[0], "version": version_of(owners[0])}
    version = getattr(module, "__version__", "")
    return {"version": version if isinstance(version, str) else ""}


def digest_of_file(module: ModuleType) -> str:
    """Return "sha256:…" of a module's source file, "" where it has none."""
    path = getattr(module, "__file__", None)
    if not path or not Path(path).is_file():
        return ""
    return "sha256:" + hashlib.sha256(Path(path).read_bytes()).hexdigest()
