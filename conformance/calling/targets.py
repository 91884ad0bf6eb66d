"""Turns what follows `--impl=` into an `Implementation`: found, imported, recognised and tried.

    NAME               an adapter's name
    module:attribute   a function, operator, autograd function or nn.Module class; dots allowed
    mutant:NAME        a wrong implementation that the suite brings along
    variant:NAME       a right one, of another form

This runs in the worker process alone, since all that is named here gets imported.
A declaration wins over recognition. Recognition reads parameter names and their order (`roles`), operator
schemas (`signatures`) and constructors (`modules`), and leaves what is open to one trial call (`probe`,
`readings`).
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from conformance.calling import registry
from conformance.calling.descriptions import describe, from_description
from conformance.calling.invoke import invoke, prepare
from conformance.calling.packages import UNKNOWN, Facts, facts_of_module
from conformance.calling.readings import Candidate, choose, in_place, mode_of, readings
from conformance.calling.sentences import sentences
from conformance.calling.signatures import Signature, is_compiled, read
from conformance.errors import ImportFailed, NoSuchImplementation, NotRecognised, no_such_name
from conformance.model import Call, Implementation

if TYPE_CHECKING:
    import torch

__all__ = [
    "describe", "from_description", "invoke", "is_compiled", "load", "prepare", "recognise", "resolve",
]  # fmt: skip

BUNDLED = ("mutant", "variant")
"""Words before a colon that name folders of this package instead of a module."""


def load(
    spec: str,
    device: torch.device | str = "cpu",
    *,
    probe: bool = True,
    weight_offset: float | None = None,
    differentiable: Mapping[str, bool | None] | None = None,
) -> Implementation:
    """Return the implementation that `spec` names, ready to be called on `device`.

    With `probe` one trial call per fusion mode settles what a signature leaves open, and a few more whether
    there are gradients; without it the reading by name and order is kept. `weight_offset` overrides what was
    recognised, `differentiable` (by fusion mode) is what an earlier load found out. Raises a
    ConformanceError: NoSuchImplementation, ImportFailed, NotInstalled or NotRecognised, each with what to do.
    """
    found, module, name = _found(spec, device if probe else None, weight_offset)
    if not probe:
        return found
    from conformance.calling.gradients import with_gradients

    return with_gradients(found, device, module=module, name=name, known=differentiable)


def _found(
    spec: str, trial: torch.device | str | None, weight_offset: float | None
) -> tuple[Implementation, ModuleType | None, str]:
    """The implementation; and where it was recognised, the module and name of its function."""
    kind, colon, rest = spec.partition(":")
    if not colon:
        return _with_offset(registry.registered(spec), weight_offset), None, ""
    if kind in BUNDLED:
        return _bundled(kind, rest, trial, weight_offset), None, ""
    module = import_module(kind, spec)
    for implementation in registry.declared(module):
        if rest == implementation.name or spec == implementation.name:
            return _with_offset(implementation, weight_offset), None, ""
    subject = attribute(module, rest, spec)
    for implementation in registry.declared(module):
        if any(call.function is subject for call in implementation.calls.values()):
            return _with_offset(implementation, weight_offset), None, ""
    return recognise(subject, spec, trial, weight_offset, facts_of_module(module)), module, rest


def resolve(
    spec: str, device: torch.device | str | None = "cpu", weight_offset: float | None = None
) -> Implementation:
    """Return the implementation that `spec` names; `device` None makes no trial call. See `load`."""
    return load(spec, device or "cpu", probe=device is not None, weight_offset=weight_offset)


def recognise(
    subject: Any,
    name: str,
    device: torch.device | str | None = None,
    weight_offset: float | None = None,
    facts: Facts = UNKNOWN,
) -> Implementation:
    """Return what the signature of `subject` says, settled by a trial call on `device`, if any."""
    candidates = readings(signature_of(subject, name), weight_offset)
    return _implementation(name, candidates, device, facts)


def signature_of(subject: Any, name: str) -> Signature:
    """Return the signature of anything that can be put under test. Raises NotRecognised."""
    torch = sys.modules.get("torch")
    if torch is not None:
        is_module = inspect.isclass(subject) and issubclass(subject, torch.nn.Module)
        if is_module or isinstance(subject, torch.nn.Module):
            from conformance.calling.modules import read_module

            return read_module(subject, name)
    return read(subject, name)


def import_module(name: str, spec: str) -> ModuleType:
    """Import the module of a spec. Raises NoSuchImplementation or ImportFailed, with the cause in words."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            raise NoSuchImplementation(
                f"--impl={spec}: there is no module {missing!r}.",
                "Write module:function as Python imports it, from the current directory or an installed "
                "package: --impl=mypkg:fused_add_rms_norm for mypkg.py, without path and without .py.",
            ) from None
        raise ImportFailed(
            f"--impl={spec}: importing {name} needs the module {missing!r}, which is not installed.",
            f"Install what provides {missing!r} in this environment.",
        ) from error
    except (Exception, SystemExit) as error:
        raise ImportFailed(
            f"--impl={spec}: importing {name} raised {type(error).__name__}: {error}",
            f'Make `python -c "import {name}"` work first.',
        ) from error


def attribute(module: ModuleType, path: str, spec: str) -> Any:
    """Return the attribute at the dotted `path`. Raises NoSuchImplementation, naming what is there."""
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            there = _callables(found)
            raise NoSuchImplementation(
                f"--impl={spec}: {getattr(found, '__name__', found)} has no attribute {part!r}.",
                f"It has: {', '.join(there)}." if there else "It has nothing that can be called.",
            ) from None
    return found


def _callables(holder: Any) -> list[str]:
    names = [n for n in dir(holder) if not n.startswith("_") and callable(getattr(holder, n, None))]
    return names[:20]


def _bundled(
    kind: str, name: str, device: torch.device | str | None, weight_offset: float | None
) -> Implementation:
    """A mutant or variant: its IMPLEMENTATION, or its functions, each answering for its own fusion mode."""
    package = importlib.import_module(f"conformance.{kind}s")
    spec = f"{kind}:{name}"
    if name not in package.names():
        raise no_such_name(spec, [f"{kind}:{known}" for known in package.names()])
    try:
        module = package.load(name)
    except (Exception, SystemExit) as error:
        raise ImportFailed(f"--impl={spec}: importing it raised {type(error).__name__}: {error}") from error
    own = getattr(module, "IMPLEMENTATION", None)
    if own is not None:
        return _with_offset(replace(own, name=spec), weight_offset)
    candidates: list[Candidate] = []
    for function in ("rms_norm", "fused_add_rms_norm", "fused_add_rms_norm_"):
        subject = getattr(module, function, None)
        if subject is None:
            continue
        found = readings(signature_of(subject, f"{spec}.{function}"), weight_offset)
        wanted = [c for c in found if c.fused == (function != "rms_norm")]
        candidates += map(in_place, wanted) if function.endswith("_") else wanted
    if not candidates:
        raise NotRecognised(f"{spec} has none of rms_norm, fused_add_rms_norm, fused_add_rms_norm_.")
    return _implementation(spec, candidates, device, UNKNOWN)


def _implementation(
    name: str, candidates: Iterable[Candidate], device: torch.device | str | None, facts: Facts
) -> Implementation:
    calls: dict[str, Call] = {}
    said: list[str] = []
    for candidate in candidates:
        evidence = None
        call = candidate.call
        if device is not None:
            from conformance.calling.probe import gather_evidence

            evidence = gather_evidence(candidate, device)
            call = choose(candidate, evidence)
        mode = mode_of(call)
        if mode not in calls:
            calls[mode] = call
            said.extend(sentences(mode, candidate, call, evidence))
    return Implementation(
        name=name, calls=calls, recognised=tuple(said), package=facts.package, version=facts.version
    )


def _with_offset(implementation: Implementation, weight_offset: float | None) -> Implementation:
    if weight_offset is None:
        return implementation
    calls = {m: replace(c, weight_offset=weight_offset) for m, c in implementation.calls.items()}
    return replace(implementation, calls=calls)
