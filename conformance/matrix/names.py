"""Which implementations are put to it: every mutant that this machine can show, and every variant."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from conformance import mutants, variants
from conformance.errors import NoSuchImplementation
from conformance.loading.value_readers import close_to

_FOLDERS = {"mutant": mutants.FOLDER, "variant": variants.FOLDER}
_TRITON, _PLAIN = 4, 1
"""How long a run takes in Triton's interpreter, or compiled, beside one in plain torch: a guess."""


def known() -> dict[str, str]:
    """Every implementation by name, sorted -> the requirement that it breaks; "" for a variant."""
    found = {f"mutant:{n}": label.breaks for n, label in _labels().items()}
    return {**found, **{f"variant:{n}": "" for n in variants.names()}}


@cache
def _labels() -> dict[str, mutants.Label]:
    """The labels of all mutants: read once a process, since there are hundreds of files."""
    return {name: mutants.label(name) for name in mutants.names()}


def visible(device: str) -> tuple[str, ...]:
    """The names of all that a machine can show, sorted. device: "cpu", or what its GPU is called."""
    return tuple(n for n in known() if device != "cpu" or not needs_gpu(n))


def needs_gpu(spec: str) -> bool:
    """Whether only a GPU shows the fault of a mutant."""
    kind, _, name = spec.partition(":")
    return kind == "mutant" and _labels()[name].needs == "gpu"


def chosen(names: Iterable[str], device: str) -> tuple[str, ...]:
    """The names given that this machine can show; all of them for none.

    Raises:
        NoSuchImplementation: a name is neither a mutant's nor a variant's.
    """
    names, all_names = list(names), known()
    for name in names:
        if name not in all_names:
            hint = f"Write mutant:NAME or variant:NAME. {close_to(name, all_names)}"
            raise NoSuchImplementation(f"{name!r} is neither a mutant nor a variant.", hint)
    shown = visible(device)
    return tuple(sorted(set(names) & set(shown))) if names else shown


def shard(names: Sequence[str], part: int, parts: int) -> tuple[str, ...]:
    """Part `part` of `parts`, counted from 1: every name is in exactly one. The order of names decides."""
    return tuple(names[part - 1 :: parts])


def longest_first(names: Iterable[str]) -> list[str]:
    """In the order in which to start them, so that no long one is left at the end."""
    return sorted(names, key=lambda n: (-_weight(n), n))


def _weight(spec: str) -> int:
    """A guess of how long all its runs take: by its fusion modes, and whether it is made of kernels."""
    tree = ast.parse(_file(spec).read_text("utf-8"))
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    modes = len(functions & mutants.FUNCTIONS.keys()) or len(mutants.FUNCTIONS)
    words = ast.unparse(tree)
    return modes * (_TRITON if any(w in words for w in ("triton", "_tile", "torch.compile")) else _PLAIN)


def _file(spec: str) -> Path:
    kind, _, name = spec.partition(":")
    return _FOLDERS[kind] / f"{name}.py"


def source(spec: str) -> str:
    """Digest of what an implementation is made of: its file, and the private ones of its folder."""
    own = _file(spec)
    files = [own, *sorted(own.parent.glob("_*.py"))]
    return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()[:16]
