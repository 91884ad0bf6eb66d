"""Finds implementations by the names under which they were declared: adapters, entry points, user's hooks.

An adapter is one file of `conformance/adapters` or the module behind an entry point of the group
`rmsnorm_conformance`. It has the hook `conformance_implementations`, and may have `NAMES`, the names that it
declares; with `NAMES` the vendor is imported only when one of them is asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import pluggy

from conformance import adapters, hookspecs
from conformance.errors import ConformanceError, ImportFailed, NotInstalled, no_such_name
from conformance.model import Implementation


def registered(name: str) -> Implementation:
    """Return the implementation that an adapter declares as `name`.

    Raises NotInstalled where the adapter's package is absent, NoSuchImplementation where no adapter has the
    name.
    """
    unnamed = []
    for module in _adapters():
        names = getattr(module, "NAMES", None)
        if names is None:
            unnamed.append(module)
        elif name in names:
            try:
                return _pick(name, declared(module))
            except NotInstalled as error:
                raise NotInstalled(f"{name}: {error.message}", error.hint) from None
    for module in unnamed:
        try:
            for implementation in declared(module):
                if implementation.name == name:
                    return implementation
        except NotInstalled:
            continue
    raise no_such_name(name, known_names())


def known_names() -> tuple[str, ...]:
    """Return every name that can be given to --impl as it is, sorted; imports no bundled vendor."""
    names: set[str] = set()
    for module in _adapters():
        announced = getattr(module, "NAMES", None)
        if announced is not None:
            names.update(announced)
            continue
        try:
            names.update(i.name for i in declared(module))
        except NotInstalled:
            continue
    return tuple(sorted(names))


def declared(module: ModuleType) -> list[Implementation]:
    """Return what the hook of a module declares, [] where it has none.

    Raises what the hook raises: NotInstalled as it is, anything else as ImportFailed.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(module)
    try:
        listed = manager.hook.conformance_implementations()
    except ConformanceError:
        raise
    except (Exception, SystemExit) as error:
        raise ImportFailed(
            f"{module.__name__}: its hook conformance_implementations raised {type(error).__name__}: {error}",
            "The hook should return a list of conformance.model.Implementation.",
        ) from error
    found = [i for some in listed for i in some]
    for item in found:
        if not isinstance(item, Implementation):
            raise ImportFailed(
                f"{module.__name__}: its hook conformance_implementations gave a {type(item).__name__}",
                "The hook should return a list of conformance.model.Implementation.",
            )
    return found


def _adapters() -> Iterator[ModuleType]:
    for found in sorted(pkgutil.iter_modules(adapters.__path__), key=lambda m: m.name):
        if not found.name.startswith("_"):
            yield importlib.import_module(f"{adapters.__name__}.{found.name}")
    for point in sorted(entry_points(group=hookspecs.PROJECT), key=lambda p: p.name):
        yield _load(point)


def _load(point: EntryPoint) -> ModuleType:
    try:
        return point.load()
    except Exception as error:
        raise ImportFailed(
            f"the entry point {point.name} = {point.value} cannot be loaded: {type(error).__name__}: {error}",
            "Repair or uninstall the package that registers it.",
        ) from error


def _pick(name: str, implementations: list[Implementation]) -> Implementation:
    for implementation in implementations:
        if implementation.name == name:
            return implementation
    raise no_such_name(name, [i.name for i in implementations])
