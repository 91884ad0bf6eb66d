"""What a forward keeps for its backward: seen through hooks, and handed on doubled where that is asked.

A backward that reads the saved statistic gives another dx when it is doubled; one that computes it again does
not. Looked at: what goes through torch's saved-tensor hooks (ctx.save_for_backward, and everything that
torch's own operations keep), and tensors that a Python autograd function keeps as attributes of its ctx.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from conformance.processes.copies import is_plain

_HOOKS = torch.autograd.graph.saved_tensors_hooks


class Saved:
    """The tensors that one forward saves. n_rows: how many elements a statistic of the rows has."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._kept: list[dict[str, Any]] = []  # one tensor each; what the backward gets is decided later

    def hooks(self) -> Any:
        """The context in which the forward runs."""
        return _HOOKS(self._pack, lambda kept: kept["tensor"])

    def _pack(self, tensor: torch.Tensor) -> dict[str, Any]:
        self._kept.append({"tensor": tensor})
        return self._kept[-1]

    def statistics(self, outputs: Iterable[Any], foreign: set[int]) -> list[tuple[str, torch.Tensor]]:
        """(name, tensor) of every saved floating tensor of n_rows elements, each memory once.

        foreign: addresses of storages that do not count, those of inputs and outputs.
        """
        found: dict[int, tuple[str, torch.Tensor]] = {}
        for name, held, key in self._places(outputs, foreign):
            found.setdefault(held[key].data_ptr(), (name, held[key]))
        return list(found.values())

    def others(self, outputs: Iterable[Any], foreign: set[int]) -> int:
        """How many other floating tensors are kept in which a statistic of the rows could lie as well."""
        places = [(kept, "tensor") for kept in self._kept]
        for node in nodes(outputs):
            held = getattr(node, "__dict__", {})
            places += [(held, name) for name in held]
        found = {
            held[name].data_ptr()
            for held, name in places
            if self._is_own(held[name], foreign) and held[name].numel() > self._n_rows
        }
        return len(found)

    def double(self, outputs: Iterable[Any], foreign: set[int]) -> int:
        """Let the backward see each of the `statistics` times two; says how many memories that were."""
        doubled: dict[int, torch.Tensor] = {}
        for _, held, key in list(self._places(outputs, foreign)):
            tensor = held[key]
            twice = doubled.setdefault(tensor.data_ptr(), tensor.detach() * 2)
            held[key] = twice.reshape(tensor.shape)
        return len(doubled)

    def _places(self, outputs: Iterable[Any], foreign: set[int]) -> Iterator[tuple[str, dict[str, Any], str]]:
        """A name, and the dict and key that hold the tensor."""
        for number, kept in enumerate(self._kept, 1):
            if self._counts(kept["tensor"], foreign):
                yield f"saved tensor {number}", kept, "tensor"
        for node in nodes(outputs):
            held = getattr(node, "__dict__", {})
            for name in [n for n, value in held.items() if self._counts(value, foreign)]:
                yield f"ctx.{name}", held, name

    def _counts(self, value: Any, foreign: set[int]) -> bool:
        return self._is_own(value, foreign) and value.numel() == self._n_rows

    @staticmethod
    def _is_own(value: Any, foreign: set[int]) -> bool:
        return (
            is_plain(value)
            and value.is_floating_point()
            and value.untyped_storage().data_ptr() not in foreign
        )


def nodes(outputs: Iterable[Any]) -> Iterator[Any]:
    """Every node of the graph behind some outputs, each once."""
    waiting = [o.grad_fn for o in outputs if is_plain(o) and o.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
