"""What a worker does with a request: load an implementation, or make the calls of one run."""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from conformance.calling.graphs import said_by
from conformance.processes.allocations import GuardAllocations
from conformance.processes.backward import Training
from conformance.processes.copies import Copies, is_plain, slots_of
from conformance.processes.launches import Interpreter
from conformance.processes.protocol import Arena, Bump
from conformance.processes.watch import Watch

_TEXT_LIMIT = 2000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Server:
    """Holds the implementation and the memory of the run in progress."""

    def __init__(self, arena: Arena, device: str) -> None:
        self._arena = torch.from_numpy(arena.bytes)
        self._device = torch.device(device)
        self._watch = Watch()
        self._calls: dict[str, Any] = {}
        # Bound now: an implementation that replaces these cannot change what the worker does.
        self._synchronize = torch.cuda.synchronize if self._device.type == "cuda" else lambda: None
        self._empty = torch.empty
        self._canary = torch.zeros(1, device=self._device)
        self._interpreter = Interpreter() if device == "cpu" else None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request; an error of the suite itself comes back as `broken`."""
        try:
            return getattr(self, "_" + request["op"])(request)
        except Exception as error:
            import traceback

            # On a GPU it may be an error of an earlier launch: no later result of this process counts.
            return {
                "broken": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-3000:],
                "poisoned": self._device.type == "cuda",
            }  # fmt: skip

    # --- load ------------------------------------------------------------------------------------------

    def _load(self, request: dict[str, Any]) -> dict[str, Any]:
        from conformance.calling import targets
        from conformance.errors import ConformanceError

        try:
            with torch.inference_mode(False):
                implementation = targets.load(
                    request["spec"], self._device,
                    probe=request["probe"], weight_offset=request["weight_offset"],
                    differentiable=request["differentiable"],
                )  # fmt: skip
        except ConformanceError as error:
            return {"error": type(error).__name__, "message": error.message, "hint": error.hint}
        except BaseException as error:  # SystemExit and pytest's outcomes at import are faults too
            return {"error": "ImportFailed", "message": _describe(error)["text"], "hint": ""}
        finally:
            drift = self._watch.drift()
            self._watch.accept_environment()
        self._calls = dict(implementation.calls)
        return {"description": targets.describe(implementation), "drift": drift}

    # --- run -------------------------------------------------------------------------------------------

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        bump = Bump(request["free"])
        buffers = {b["name"]: self._buffer(b["nbytes"], b["device"]) for b in request["buffers"]}
        windows = {b["name"]: b["segments"] for b in request["buffers"]}
        copies = Copies(self._arena, bump, buffers)
        asked = request["training"]
        # One for each graph that is alive at a time; all but the scenario `interleaved` have one.
        graphs = [None if asked is None else Training(self._calls[request["mode"]], asked) for _ in range(2)]
        held: list[dict[str, torch.Tensor]] = []
        steps: list[dict[str, Any]] = []
        for step in request["steps"]:
            for name, at in step["load"].items():
                self._copy_in(buffers[name], windows[name], at)
            tensors = {r: self._tensor(buffers, t) for r, t in step["tensors"].items()}
            self._synchronize()
            record = self._call(request, step, tensors, copies, graphs[step["graph"]])
            if record["status"] == "device error":
                return {"steps": [], "poisoned": True, "error": record["exception"]["first"]}
            for name, at in step["dump"].items():
                self._copy_out(buffers[name], windows[name], at)
            values = record.pop("values")
            held.append(record.pop("held", {}))
            steps.append(record)
            if record["status"] != "returned":
                break
            _feed(step.get("feed") or {}, tensors, values)
        for record, gradients in zip(steps[:-1], held, strict=False):
            if gradients:
                record["gradients_after"] = {r: copies.again(g) for r, g in gradients.items()}
        held.clear()
        buffers.clear()
        gc.collect(0)
        interpreter = self._interpreter
        launched = interpreter is not None and interpreter.launched()
        dtypes = {t["dtype"] for step in request["steps"] for t in step["tensors"].values()}
        unable = interpreter.problem if interpreter is not None and launched and "bfloat16" in dtypes else ""
        return {
            "steps": steps, "interpreted": launched, "unable": unable, "poisoned": False, "used": bump.used,
        }  # fmt: skip

    def _call(
        self,
        request: dict[str, Any],
        step: dict[str, Any],
        tensors: dict[str, torch.Tensor],
        copies: Copies,
        training: Training | None,
    ) -> dict[str, Any]:
        from conformance.calling import targets

        call = self._calls[request["mode"]]
        guard = GuardAllocations() if request["guard"] else None
        allocations = guard.allocations if guard else []
        record: dict[str, Any] = {"status": "returned", "drift": [], "values": {}}

        def attempt(record: dict[str, Any], phase: str, prepare: Any, around: Sequence[Any] = ()) -> Any:
            return self._attempt(record, phase, prepare, [*around, *([] if guard is None else [guard])])

        if step["forward"]:
            given = tensors if training is None else training.leaves(tensors)
            arguments = {**given, **step["scalars"]}
            around = [] if training is None else training.around()
            result, _ = attempt(record, "forward", lambda: targets.prepare(call, arguments), around)
            if record["status"] == "returned":
                slots = slots_of(result)
                record["returns"] = [copies.slot(s, allocations) for s in slots]
                written = {o: tensors[role] for role, o in call.mutates.items() if role in tensors}
                record["values"] = {**written, **dict(zip(call.returns, slots, strict=False))}
                if training is not None:
                    training.forward_done(slots)
        if training is not None and step["backward"] and record["status"] == "returned":
            training.backward(record, step, tensors, attempt, copies, allocations)
        if guard is not None and record["status"] != "device error":
            record["allocations"] = [copies.bands(a) for a in guard.allocations if a.extent]
            record["uncovered"] = sorted(guard.uncovered)
        return record

    def _attempt(
        self, record: dict[str, Any], phase: str, prepare: Any, contexts: list[Any]
    ) -> tuple[Any, BaseException | None]:
        """Make one call within `contexts`: the result, what it raised, and both in words in the record."""
        record["phase"] = phase
        result, raised = None, None
        try:
            ready = prepare()
            with ExitStack() as stack:
                for context in contexts:
                    stack.enter_context(context)
                result = ready()
        except BaseException as error:
            raised = error
            record["exception"] = _describe(error)
            record["status"] = "raised" if isinstance(error, Exception) else "left by no Exception"
        try:
            self._synchronize()
            self._canary.add_(0)  # a launch that failed is told by the next launch: ask at once
            self._synchronize()
        except Exception as error:  # sticky: this process cannot use its device any more
            record |= {"status": "device error", "exception": _describe(error)}
            return None, error
        # Before anything is copied with what may have been replaced.
        record["drift"] += [told for told in self._watch.drift() if told not in record["drift"]]
        return result, raised

    # --- memory ----------------------------------------------------------------------------------------

    def _buffer(self, nbytes: int, device: str | None) -> torch.Tensor:
        """Uninitialised bytes that start at an aligned address, on the worker's device or the one named."""
        raw = self._empty(nbytes + 256, dtype=torch.uint8, device=device or self._device)
        return raw[-raw.data_ptr() % 256 :][:nbytes]

    def _tensor(self, buffers: dict[str, torch.Tensor], spec: dict[str, Any]) -> torch.Tensor:
        dtype = getattr(torch, spec["dtype"])
        flat = buffers[spec["buffer"]].view(dtype)
        offset = flat.storage_offset() + spec["offset"]
        return torch.as_strided(flat, spec["shape"], spec["strides"], offset)

    def _copy_in(self, buffer: torch.Tensor, windows: list[list[int]], at: int) -> None:
        for start, length in windows:
            buffer[start : start + length].copy_(self._arena[at : at + length])
            at += length

    def _copy_out(self, buffer: torch.Tensor, windows: list[list[int]], at: int) -> None:
        for start, length in windows:
            self._arena[at : at + length].copy_(buffer[start : start + length])
            at += length


def _feed(plan: dict[str, str], tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
    """Make the outputs of one call the inputs of the next; what works in place has done so already."""
    fed = {role: values.get(output) for role, output in plan.items()}
    # Copies: what one input is fed may lie in the memory of another.
    fresh = {r: v.clone() for r, v in fed.items() if is_plain(v) and v.shape == tensors[r].shape}
    for role, value in fresh.items():
        tensors[role].copy_(value)


def _describe(error: BaseException) -> dict[str, Any]:
    """An exception as JSON. Compilers colour their messages and break them into lines: neither is shown."""
    said = said_by(error)
    lines = _COLOURS.sub("", f"{type(error).__name__}: {said}" if said else type(error).__name__).split("\n")
    text = " ".join(" ".join(lines).split())
    return {
        "first": lines[0],
        "type": type(error).__name__,
        "bases": [c.__name__ for c in type(error).__mro__],
        "text": text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + " …",
    }
