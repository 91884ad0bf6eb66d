"""What a result must say about where it was obtained: versions, device, and which package was tested."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from conformance.model import Implementation
from conformance.plan import Machine


def environment(machine: Machine) -> dict[str, str]:
    """Versions of what computes. No host name, user or path."""
    found = {name: _version(name) for name in ("torch", "triton", "numpy")}
    return {**found, "python": platform.python_version(), "driver": _driver(machine)}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _driver(machine: Machine) -> str:
    if machine.device == "cpu":
        return ""
    import torch

    if torch.version.hip:
        return f"ROCm {torch.version.hip}"
    return f"CUDA {torch.version.cuda}"


def package_of(spec: str, implementation: Implementation) -> dict[str, Any]:
    """The installed distribution that an implementation comes from, with a digest of its files.

    Empty for a module that belongs to no distribution (a file of the user's folder).
    """
    name = implementation.package
    if not name:
        top = spec.partition(":")[0].partition(".")[0]
        owners = metadata.packages_distributions().get(top, [])
        if len(owners) != 1:
            return {}
        name = owners[0]
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return {}
    return {"package": name, "version": distribution.version, "digest": _digest(distribution)}


def _digest(distribution: metadata.Distribution) -> str:
    """sha256 over the RECORD of a wheel: names and digests of all its files, in sorted order."""
    lines = sorted(
        f"{file} {file.hash.value if file.hash else ''}"
        for file in distribution.files or []
        if Path(str(file)).suffix not in (".pyc", "") and ".." not in str(file)
    )
    return "sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""
