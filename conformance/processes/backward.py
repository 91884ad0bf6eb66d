"""The backward half of a training run: leaves, the graph, the gradients, and what must stay as it was.

The tensors of the guarded buffers become leaves themselves, so what the implementation saves and reads is the
watched memory. Gradients are asked with torch.autograd.grad, which writes no `.grad`: one that is found
afterwards was written by the implementation. A call with an explicit backward function (`Call.backward`) is
given no leaves; its function is called with what the forward was given and what it returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from conformance.calling.graphs import has_graph, said_by, says_no_formula
from conformance.model import GRADIENT_OF, OUTPUTS, UPSTREAM_OF, Call
from conformance.processes.allocations import Allocation
from conformance.processes.copies import Copies, is_plain, slots_of
from conformance.processes.saved import Saved, nodes

# Bound now: an implementation that replaces it cannot change what the worker does.
_GRAD = torch.autograd.grad
_INVALID = re.compile(r"Function (\S+) returned an invalid gradient at index (\d+) - (.*)", re.DOTALL)
_ROLE_OF = {gradient: role for role, gradient in GRADIENT_OF.items()}

Attempt = Callable[
    [dict[str, Any], str, Callable[[], Callable[[], Any]], Sequence[AbstractContextManager[Any]]],
    tuple[Any, BaseException | None],
]
"""Makes one call: the record, its phase, what makes the call ready, contexts around it; gives the result and
what it raised."""


class Training:
    """Goes along with the steps of one training run. `retain` keeps the graph of a step for the next one."""

    def __init__(self, call: Call, asked: Mapping[str, Any]) -> None:
        self._call = call
        self._wanted: list[str] = asked["gradients"]
        self._upstream: list[str] = asked["upstream"]
        self._n_rows, self._retain = asked["n_rows"], asked["retain"]
        self._watch_saved = asked["watch_saved"]
        self._given: dict[str, torch.Tensor] = {}
        self._slots: list[Any] = []
        self._values: dict[str, Any] = {}
        self._saved: Saved | None = None

    # --- forward ---------------------------------------------------------------------------------------

    def leaves(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What the forward is called with. A weight is a Parameter, as in a model: a module takes it over."""
        self._given = {r: t for r, t in tensors.items() if r not in UPSTREAM_OF.values()}
        if self._call.backward is None:
            if "weight" in self._given:
                self._given["weight"] = torch.nn.Parameter(self._given["weight"], requires_grad=False)
            for role in self._wanted:
                self._given[role].requires_grad_(True)
        return dict(self._given)

    def around(self) -> list[AbstractContextManager[Any]]:
        """The contexts in which the forward runs."""
        contexts = self._retaining()
        if self._watch_saved and self._call.backward is None:
            self._saved = Saved(self._n_rows)
            contexts.append(self._saved.hooks())
        return contexts

    def _retaining(self) -> list[AbstractContextManager[Any]]:
        """What a compiled op needs to be gone through twice.

        By default torch.compile lets the backward reuse the memory of what was saved; a second one is then
        refused, and told that this setting allows it.
        """
        if not self._call.compiled:
            return []
        return [torch._functorch.config.patch(donated_buffer=False)]

    def forward_done(self, slots: list[Any]) -> None:
        """Take what the forward returned."""
        self._slots = slots
        written = {output: self._given.get(role) for role, output in self._call.mutates.items()}
        self._values = {**written, **dict(zip(self._call.returns, slots, strict=False))}

    # --- backward --------------------------------------------------------------------------------------

    def backward(
        self,
        record: dict[str, Any],
        step: Mapping[str, Any],
        tensors: Mapping[str, torch.Tensor],
        attempt: Attempt,
        copies: Copies,
        allocations: list[Allocation],
    ) -> None:
        """Ask for the gradients, where there is a graph, and put what became of it into the record."""
        graph = self._graph()
        if graph:
            self._statistics(record, step["double"], copies)
            gradients, error = attempt(
                record, "backward", lambda: self._ready(graph, step, tensors), self._retaining()
            )
            if record["status"] == "device error":
                return
            if error is not None and self._call.backward is None:
                if any(says_no_formula(error, self._values[name]) for name in graph):
                    record |= {"status": "returned", "phase": "forward"}
                    del record["exception"]
                    graph = []
                elif (found := self._invalid(graph, error)) is not None:
                    record["invalid_gradient"] = found
            elif error is None:
                slots = {r: copies.slot(g, allocations) for r, g in gradients.items()}
                record["gradients"] = slots
                # Looked at again after the last call. What lies in the suite's own memory is written there.
                own = {
                    r: slot.get("kind") == "tensor" and slot["buffer"] is None for r, slot in slots.items()
                }
                record["held"] = {r: g for r, g in gradients.items() if own[r]}
            record["returns_after"] = [copies.again(slot) for slot in self._slots]
        record["graph"] = graph
        record["unasked"] = self._unasked(tensors)
        if not (self._retain and step["forward"]):
            self.forget()

    def forget(self) -> None:
        """Free the graph, and everything that a step held."""
        self._given, self._slots, self._values, self._saved = {}, [], {}, None

    def _graph(self) -> list[str]:
        """The outputs that gradients can be asked of."""
        named = [name for name in OUTPUTS if is_plain(self._values.get(name))]
        if self._call.backward is not None:
            return [name for name in named if name in UPSTREAM_OF]
        return [name for name in named if has_graph(self._values[name])]

    def _invalid(self, graph: list[str], error: BaseException) -> dict[str, Any] | None:
        """Which input's gradient autograd itself refused, for its shape or device, and what it said."""
        said = _INVALID.search(said_by(error))
        if said is None:
            return None
        function, index, problem = said[1], int(said[2]), said[3]
        names = {id(tensor): role for role, tensor in self._given.items()}
        for node in nodes(self._values[name] for name in graph):
            if node.name() == function and index < len(node.next_functions):
                leaf = getattr(node.next_functions[index][0], "variable", None)
                if id(leaf) in names:
                    return {"role": names[id(leaf)], "said": problem}
        return {"role": None, "said": problem}

    def _ready(
        self, graph: list[str], step: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
    ) -> Callable[[], dict[str, Any]]:
        if self._call.backward is not None:
            return self._explicit(step, tensors)
        outputs: list[torch.Tensor] = []
        arriving: list[torch.Tensor] = []
        for name in [name for name in self._upstream if name in graph]:
            value, gradient = self._values[name], tensors[UPSTREAM_OF[name]]
            if value.numel() == gradient.numel():  # another size is wrong already
                outputs.append(value)
                arriving.append(gradient if gradient.shape == value.shape else gradient.reshape(value.shape))
        leaves = [self._given[role] for role in self._wanted]
        retain = self._retain and step["forward"]

        def ask() -> dict[str, Any]:
            if not outputs:
                return dict.fromkeys(self._wanted)
            found = _GRAD(outputs, leaves, arriving, allow_unused=True, retain_graph=retain)
            return dict(zip(self._wanted, found, strict=True))

        return ask

    def _explicit(
        self, step: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
    ) -> Callable[[], dict[str, Any]]:
        """The explicit backward, by role; a gradient that does not arrive is zeros."""
        from conformance.calling.invoke import prepare_backward

        backward = self._call.backward
        assert backward is not None
        arguments: dict[str, Any] = {**self._given, **step["scalars"]}
        like = {"dy": "x", "dresidual_out": "residual"}
        for name, role in like.items():
            if role in self._given:
                absent = torch.zeros(self._given[role].shape, dtype=self._given[role].dtype,
                                     device=self._given[role].device)  # fmt: skip
                arguments[name] = tensors.get(name, absent)
        for name in ("residual_out", "rrms"):
            if is_plain(self._values.get(name)):
                arguments[name] = self._values[name]
        if step["double"] and "rrms" in arguments:
            arguments["rrms"] = arguments["rrms"] * 2
        ready = prepare_backward(self._call, arguments)

        def ask() -> dict[str, Any]:
            named = dict(zip(backward.returns, slots_of(ready()), strict=False))
            if "residual" in self._given and "dresidual" not in backward.returns:
                named["dresidual"] = named.get("dx")  # x and residual enter as their sum: one tensor for both
            return {_ROLE_OF[name]: value for name, value in named.items() if name in _ROLE_OF}

        return ask

    # --- what is watched -------------------------------------------------------------------------------

    def _statistics(self, record: dict[str, Any], double: bool, copies: Copies) -> None:
        """Tell which statistics were saved, or hand them on doubled."""
        if not self._watch_saved:
            return
        if self._saved is None:  # an explicit backward is given the statistic
            rrms = self._values.get("rrms")
            found = [("rrms", rrms)] if is_plain(rrms) else []
            record["doubled" if double else "saved"] = (
                len(found) if double else [copies.statistic(*one) for one in found]
            )
            return
        outputs = [self._values.get(name) for name in UPSTREAM_OF]
        known = [t for t in (*self._given.values(), *outputs) if is_plain(t)]
        foreign = {t.untyped_storage().data_ptr() for t in known}
        if double:
            record["doubled"] = self._saved.double(outputs, foreign)
        else:
            record["saved"] = [copies.statistic(*one) for one in self._saved.statistics(outputs, foreign)]
            record["other_saved"] = self._saved.others(outputs, foreign)

    def _unasked(self, tensors: Mapping[str, torch.Tensor]) -> list[str]:
        """Sentences about `.grad` and requires_grad that are not as they were."""
        found = []
        arriving = {r: t for r, t in tensors.items() if r in UPSTREAM_OF.values()}
        for role, tensor in {**self._given, **arriving}.items():
            if role in OUTPUTS or role == "out":  # supplied for an output, which may have a graph
                continue
            asked = self._call.backward is None and role in self._wanted
            if tensor.grad is not None:
                found.append(f"{role}.grad was written")
                tensor.grad = None
            if tensor.requires_grad != asked:
                found.append(f"{role}.requires_grad was switched {'off' if asked else 'on'}")
        return found
