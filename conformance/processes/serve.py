"""What a worker does with a request: load an implementation, or make the calls of one run."""

from __future__ import annotations

import gc
from typing import Any, TypeGuard

import torch

from conformance.processes.allocations import Allocation, GuardAllocations
from conformance.processes.launches import Interpreter
from conformance.processes.protocol import Arena, Bump
from conformance.processes.watch import Watch

_TEXT_LIMIT = 2000
_PLAIN = (torch.Tensor, torch.nn.Parameter)


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
        steps: list[dict[str, Any]] = []
        for step in request["steps"]:
            for name, at in step["load"].items():
                self._copy_in(buffers[name], windows[name], at)
            tensors = {r: self._tensor(buffers, t) for r, t in step["tensors"].items()}
            self._synchronize()
            record = self._call(request, step, tensors, buffers, bump)
            if record["status"] == "device error":
                return {"steps": [], "poisoned": True, "error": record["exception"]["text"]}
            for name, at in step["dump"].items():
                self._copy_out(buffers[name], windows[name], at)
            values = record.pop("values")
            steps.append(record)
            if record["status"] != "returned":
                break
            _feed(step.get("feed") or {}, tensors, values)
        buffers.clear()
        gc.collect(0)
        interpreter = self._interpreter
        launched = interpreter is not None and interpreter.launched()
        dtypes = {t["dtype"] for step in request["steps"] for t in step["tensors"].values()}
        unable = interpreter.problem if interpreter is not None and launched and "bfloat16" in dtypes else ""
        return {"steps": steps, "interpreted": launched, "unable": unable, "poisoned": False}

    def _call(
        self,
        request: dict[str, Any],
        step: dict[str, Any],
        tensors: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        bump: Bump,
    ) -> dict[str, Any]:
        from conformance.calling import targets

        call = self._calls[request["mode"]]
        guard = GuardAllocations() if request["guard"] else None
        arguments = {**tensors, **step["scalars"]}
        record: dict[str, Any] = {"status": "returned", "values": {}}
        result: Any = None
        try:
            ready = targets.prepare(call, arguments)
            if guard is None:
                result = ready()
            else:
                with guard:
                    result = ready()
        except BaseException as error:
            record["exception"] = _describe(error)
            record["status"] = "raised" if isinstance(error, Exception) else "left by no Exception"
        try:
            self._synchronize()
            self._canary.add_(0)  # a launch that failed is told by the next launch: ask at once
            self._synchronize()
        except Exception as error:  # sticky: this process cannot use its device any more
            return {**record, "status": "device error", "exception": _describe(error)}
        record["drift"] = self._watch.drift()  # before anything is copied with what may have been replaced
        if record["status"] == "returned":
            slots = list(result) if isinstance(result, (tuple, list)) else [result]
            slots = [] if result is None else slots
            allocations = guard.allocations if guard else []
            names = {name: b.untyped_storage().data_ptr() for name, b in buffers.items()}
            record["returns"] = [self._returned(s, names, allocations, bump) for s in slots]
            record["values"] = dict(zip(call.returns, slots, strict=False))
        if guard is not None:
            record["allocations"] = [self._bands(a, bump) for a in guard.allocations if a.extent]
            record["uncovered"] = sorted(guard.uncovered)
        return record

    def _returned(
        self, value: Any, buffers: dict[str, int], allocations: list[Allocation], bump: Bump
    ) -> dict[str, Any]:
        """What came back in one slot, its bytes in the arena."""
        if not issubclass(type(value), torch.Tensor):
            return {"kind": "none" if value is None else "other", "type": type(value).__name__}
        if not _is_plain(value):  # reading one would run its own code
            return {"kind": "subclass", "type": type(value).__name__}
        if value.layout != torch.strided or value.is_meta:
            kind = "meta" if value.is_meta else str(value.layout).removeprefix("torch.")
            return {"kind": "other", "type": f"{kind} tensor"}
        pointer = value.untyped_storage().data_ptr() if value.numel() else 0
        flat = value.detach().contiguous().reshape(-1)
        data = flat.view(torch.uint8) if flat.dtype != torch.bool else flat.to(torch.uint8)
        at = bump.take(data.numel())
        self._arena[at : at + data.numel()].copy_(data)
        owner = next((n for n, p in buffers.items() if p == pointer and value.numel()), None)
        home = next(
            (i for i, a in enumerate(allocations) if a.raw.untyped_storage().data_ptr() == pointer), None
        )
        return {
            "kind": "tensor", "type": type(value).__name__,
            "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape),
            "strides": list(value.stride()), "device": value.device.type, "at": at,
            "nbytes": data.numel(), "buffer": owner, "offset": value.storage_offset(),
            "allocation": home, "poisonable": home is not None and allocations[home].kind.find("empty") >= 0,
        }  # fmt: skip

    def _bands(self, allocation: Allocation, bump: Bump) -> dict[str, Any]:
        before, after = allocation.bands()
        at = bump.take(before.numel() + after.numel())
        self._arena[at : at + before.numel()].copy_(before)
        self._arena[at + before.numel() : at + before.numel() + after.numel()].copy_(after)
        return {
            "kind": allocation.kind, "shape": list(allocation.shape), "dtype": allocation.dtype,
            "extent": allocation.extent, "at": at, "before": before.numel(), "after": after.numel(),
        }  # fmt: skip

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


def _is_plain(value: object) -> TypeGuard[torch.Tensor]:
    """Whether it is a tensor and no subclass of one; asks the type, since isinstance may run foreign code."""
    return type(value) in _PLAIN


def _feed(plan: dict[str, str], tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
    """Make the outputs of one call the inputs of the next; what works in place has done so already."""
    for role, output in plan.items():
        value = values.get(output)
        if _is_plain(value) and value.shape == tensors[role].shape:
            tensors[role].copy_(value)


def _describe(error: BaseException) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}"
    return {
        "type": type(error).__name__,
        "bases": [c.__name__ for c in type(error).__mro__],
        "text": text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + " …",
    }
