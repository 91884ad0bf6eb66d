"""Stage 3, run: put the question to a worker and bring back what happened. It compares nothing.

A planned run becomes one request: guarded buffers with their contents, and the calls to make on them. What
comes back is an `Observation`: the bytes of every buffer after every call, what was returned, what was
raised, and what the implementation allocated. In a training run a call is a forward and a backward, and the
gradients come back too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from conformance import buffers
from conformance.model import UPSTREAM_OF, Call, Fill, Run
from conformance.numerics import inputs
from conformance.processes.isolate import Worker, WorkerDiedError
from conformance.processes.protocol import Arena, Bump

CHAIN_CALLS = 64
_RECYCLE_BYTES = 1 << 30


@dataclass
class Step:
    """One call: the buffers before and after (images), and the worker's record of it.

    The data are bytes, one array a tensor, None where what came back is no plain tensor.
    """

    placed: Mapping[str, buffers.Placed]
    bits: Mapping[str, np.ndarray]  # what each input holds before the call, in the tensor's shape
    eps: float | None
    before: Mapping[str, np.ndarray]
    after: Mapping[str, np.ndarray] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    data: list[np.ndarray | None] = field(default_factory=list)  # of each returned slot
    bands: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # of each allocation
    forward: bool = True  # False: a backward alone, over the graph of an earlier call
    backward: bool = True  # False: its backward comes in a later step
    gradient_data: dict[str, np.ndarray | None] = field(default_factory=dict)  # input -> its gradient
    after_data: list[np.ndarray | None] = field(default_factory=list)  # the slots again, after the backward
    saved_data: list[np.ndarray] = field(default_factory=list)  # of each tensor in record["saved"]
    kept_data: dict[str, np.ndarray | None] = field(default_factory=dict)  # gradients, after the last call


@dataclass
class Observation:
    """What one run did. status: completed, crash, hang, not run, or broken (the suite's own fault)."""

    run: Run
    call: Call
    status: str
    steps: list[Step]
    detail: str = ""
    output: str = ""  # tail of what the process printed, where it died
    interpreted: bool = False
    device: str = "cpu"
    twin: str = ""  # where a call raised: `pass` if a neutral twin of the run passed (conformance.bench)
    twin_detail: str = ""
    import_drift: tuple[
        str, ...
    ] = ()  # what importing the implementation changed (conformance.processes.watch)
    again: Observation | None = None  # where a NaN comes from nowhere: the run with finite bands and gaps
    outside_matters: str = ""  # the requirement, where memory outside the inputs changed a result
    outside_changed: str = ""  # that result: y, or dx, dresidual, dweight


def execute(
    run: Run, call: Call, worker: Worker, arena: Arena, device: str, timeout: float,
    filler: int | None = None,
) -> Observation:  # fmt: skip
    """Make the calls of `run`. A worker that dies gives an Observation that says so.

    filler: the 16-bit word that bands and gaps hold; None for canaries. Others ask whether they matter.
    """
    steps, request = _prepare(run, call, arena, filler)
    shown = Observation(run, call, "completed", steps, device=device)
    try:
        reply = worker.ask(request, timeout)
    except WorkerDiedError as death:
        shown.status, shown.detail, shown.output = death.kind, death.detail, death.output
        return shown
    if "broken" in reply:
        shown.status, shown.detail, shown.output = "broken", reply["broken"], reply["trace"]
        return shown
    if reply["poisoned"]:
        shown.status, shown.detail = "crash", f"the device reported an error: {reply['error']}"
        return shown
    shown.interpreted = reply["interpreted"]
    if reply["unable"]:
        shown.status, shown.detail = "not run", reply["unable"]
        return shown
    _collect(shown, request, reply, arena)
    return shown


def _prepare(run: Run, call: Call, arena: Arena, filler: int | None) -> tuple[list[Step], dict[str, Any]]:
    placed = _placed(run, call)
    bump = Bump()
    steps, wire = [], []
    for index in range(_calls(run)):
        loaded = _loaded(run, placed, index)
        bits = _bits(run, placed, index) if run.scenario != "chain" or index == 0 else {}
        images = {r: buffers.image_of(placed[r], bits.get(r), filler) for r in loaded}
        seen = _seen_by(run, placed, index)
        narrowed = {r: b[: seen[r].shape[0]] if seen[r].shape != b.shape else b for r, b in bits.items()}
        step = Step(
            seen, narrowed, run.eps, images,
            forward=_has_forward(run, index), backward=run.scenario != "interleaved" or index > 0,
        )  # fmt: skip
        load = {r: bump.take(placed[r].image_bytes) for r in loaded}
        for role, at in load.items():
            arena.bytes[at : at + len(images[role])] = images[role]
        scalars: dict[str, Any] = {} if run.eps is None else {"eps": run.eps}
        if run.weight_offset is not None:
            scalars["weight_offset"] = run.weight_offset
        steps.append(step)
        wire.append(
            {
                "tensors": {r: {"buffer": _buffer(run, index, r), **p.to_json()} for r, p in seen.items()},
                "scalars": scalars,
                "load": {_buffer(run, index, r): at for r, at in load.items()},
                "dump": {_buffer(run, index, r): bump.take(p.image_bytes) for r, p in placed.items()},
                "feed": _feed(run, call),
                "graph": _graph(run, index),
                "forward": step.forward,
                "backward": step.backward,
                "double": run.scenario == "saved_statistic" and index == 1,
            }
        )
    shapes = [
        {"name": name, "nbytes": p.nbytes, "segments": p.segments, "device": _device(run, r)}
        for r, p in placed.items()
        for name in {_buffer(run, index, r): None for index in range(len(steps))}
    ]
    request = {
        "op": "run", "mode": run.mode, "guard": not call.compiled, "training": _training(run),
        "buffers": shapes, "steps": wire, "free": bump.used,
    }  # fmt: skip
    return steps, request


def _training(run: Run) -> dict[str, Any] | None:
    """What a worker has to know of a training run; None for a forward run."""
    if not run.trains:
        return None
    return {
        "gradients": list(run.gradients), "upstream": list(run.upstream), "n_rows": run.n_rows,
        "retain": run.scenario == "retained", "watch_saved": run.scenario == "saved_statistic",
    }  # fmt: skip


def _loaded(run: Run, placed: Mapping[str, buffers.Placed], index: int) -> list[str]:
    """The buffers that are filled before call `index`.

    A graph that is retained holds the tensors of its forward: to write them again is an error of autograd's.
    """
    if _has_forward(run, index):
        return list(placed) if run.scenario != "chain" or index == 0 else []
    return [role for role in placed if role in UPSTREAM_OF.values()]


def _has_forward(run: Run, index: int) -> bool:
    return index < {"retained": 1, "interleaved": 2}.get(run.scenario, index + 1)


def _graph(run: Run, index: int) -> int:
    """Which of the graphs alive at a time a step belongs to: interleaved, the second call has its own."""
    return int(run.scenario == "interleaved" and index == 1)


def _buffer(run: Run, index: int, role: str) -> str:
    """The name of the buffer of a tensor in step `index`: a graph that lives on keeps its own."""
    return f"{role}, second graph" if _graph(run, index) else role


def _calls(run: Run) -> int:
    """Steps of a run; a training run repeats once more, since a lock left unset shows from the second on."""
    if run.scenario == "repeat":
        return 3 if run.trains else 2
    if run.scenario == "interleaved":
        return 3
    two = ("new_contents", "batch", "retained", "saved_statistic")
    return CHAIN_CALLS if run.scenario == "chain" else 2 if run.scenario in two else 1


def _placed(run: Run, call: Call) -> dict[str, buffers.Placed]:
    """Every tensor that the call is given, laid out as the run says."""
    shapes = {"x": run.shape, "residual": run.shape, "weight": (run.hidden_size,)}
    shapes.update(_faulty_shapes(run))
    dtypes = dict(run.dtypes)
    if run.fault == "integer_x":
        dtypes["x"] = "int32"
    placed = {
        role: buffers.place(role, shapes[role], dtypes[role], run.layouts.get(role, "contiguous"))
        for role in dtypes
    }
    out = call.parameter("out")
    if out is not None and (out.required or run.out):
        layout = run.layouts.get("out", "contiguous")
        placed["out"] = buffers.place("out", run.shape, run.dtypes["x"], layout)
    residual_out = call.parameter("residual_out")
    if residual_out is not None and (residual_out.required or run.out) and "residual" in dtypes:
        placed["residual_out"] = buffers.place("residual_out", run.shape, dtypes["residual"])
    for role in _arriving(run):
        layout = run.layouts.get(role, "contiguous")
        placed[role] = buffers.place(role, run.shape, run.dtype_of(role), layout)
    return placed


def _arriving(run: Run) -> list[str]:
    """The gradients that the suite supplies, by name: dy, dresidual_out."""
    return [UPSTREAM_OF[output] for output in run.upstream if run.trains]


def _faulty_shapes(run: Run) -> dict[str, tuple[int, ...]]:
    hidden, leading = run.hidden_size, run.shape[:-1]
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "weight_too_long": {"weight": (hidden + 1,)},
        "weight_too_short": {"weight": (hidden - 1,)},
        "weight_2d": {"weight": (run.n_rows + 1, hidden)},
        "residual_rows": {"residual": (*leading[:-1], leading[-1] + 1, hidden) if leading else (hidden,)},
        "residual_width": {"residual": (*leading, hidden + 1)},
    }
    return shapes.get(run.fault or "", {})


def _device(run: Run, role: str) -> str | None:
    return "cpu" if run.fault == "device_mixed" and role == "weight" else None


def _seen_by(run: Run, placed: dict[str, buffers.Placed], index: int) -> dict[str, buffers.Placed]:
    """The tensors of call `index`: in scenario `batch` the first call sees the first rows only."""
    if run.scenario != "batch" or index == 1:
        return placed
    rows = max(1, run.n_rows // 3)
    return {r: p if r == "weight" else p.prefix(rows) for r, p in placed.items()}


def _feed(run: Run, call: Call) -> dict[str, str]:
    if run.scenario != "chain":
        return {}
    plan = {"x": "y"} if run.mode == "none" else {"x": "y", "residual": "residual_out"}
    return {role: output for role, output in plan.items() if call.mutates.get(role) != output}


def _bits(run: Run, placed: Mapping[str, buffers.Placed], index: int) -> dict[str, np.ndarray]:
    second = run.scenario in ("new_contents", "interleaved") and index == 1
    return {
        role: _contents(run.fills[role], placed[role].shape, placed[role].dtype, second,
                        run.layouts.get(role, ""))
        for role in (*run.dtypes, *_arriving(run))
    }  # fmt: skip


@lru_cache(maxsize=24)
def _contents(fill: Fill, shape: tuple[int, ...], dtype: str, second: bool, layout: str) -> np.ndarray:
    if second:
        fill = replace(fill, seed=fill.seed + 1000)
    whole = shape
    if layout == "one_element":
        shape = tuple(1 for _ in shape)
    if layout == "expanded":  # one row (for a weight: one element), seen many times
        shape = (*(1 for _ in shape[:-1]), shape[-1]) if len(shape) > 1 else (1,)
    if dtype == "int32":
        bits = inputs.make(replace(fill, scale=max(fill.scale, 8.0)), shape, "float32")
        bits = bits.view(np.float32).astype(np.int32).view(np.uint32)
    else:
        bits = inputs.make(fill, shape, dtype)
    bits = np.ascontiguousarray(np.broadcast_to(bits, whole))
    bits.setflags(write=False)
    return bits


def _collect(shown: Observation, request: dict[str, Any], reply: dict[str, Any], arena: Arena) -> None:
    """Copy what the worker left in the arena; drop the calls that were never made."""
    shown.steps = shown.steps[: len(reply["steps"])]

    def taken(slot: Mapping[str, Any]) -> np.ndarray:
        return arena.bytes[slot["at"] : slot["at"] + slot["nbytes"]].copy()

    def brought(slot: Mapping[str, Any] | None) -> np.ndarray | None:
        return None if slot is None or slot.get("at") is None else taken(slot)

    for index, (step, sent, record) in enumerate(
        zip(shown.steps, request["steps"], reply["steps"], strict=False)
    ):
        step.record = record
        step.after = {
            role: taken({"at": sent["dump"][_buffer(shown.run, index, role)], "nbytes": p.image_bytes})
            for role, p in step.placed.items()
        }
        step.data = [brought(slot) for slot in record.get("returns", [])]
        step.gradient_data = {r: brought(slot) for r, slot in record.get("gradients", {}).items()}
        step.after_data = [brought(slot) for slot in record.get("returns_after", [])]
        step.saved_data = [taken(slot) for slot in record.get("saved", [])]
        step.kept_data = {r: brought(slot) for r, slot in record.get("gradients_after", {}).items()}
        for block in record.get("allocations", []):
            at, before, after = block["at"], block["before"], block["after"]
            band = arena.bytes[at : at + before + after].copy()
            step.bands.append((band[:before], band[before:]))
    if shown.run.scenario == "chain":
        _chain_inputs(shown)
    for step in shown.steps:
        if not step.forward:  # what was not filled again is as the graph's own call left it
            step.before = {**shown.steps[0].after, **step.before}
    if reply["used"] > _RECYCLE_BYTES:
        arena.recycle()


def _chain_inputs(shown: Observation) -> None:
    """The inputs of each later call are what the call before it left: read them from the images."""
    call = shown.call
    for index in range(1, len(shown.steps)):
        earlier, step = shown.steps[index - 1], shown.steps[index]
        before = dict(earlier.after)
        for role, output in _feed(shown.run, call).items():
            bits = output_bits(earlier, call, output)
            if bits is None or bits.shape != earlier.placed[role].shape:
                continue
            if bits.dtype == buffers.bits_dtype(earlier.placed[role].dtype):
                before[role] = _rewritten(earlier.placed[role], before[role], bits)
        step.before = before
        step.bits = {r: buffers.elements(step.placed[r], before[r]) for r in shown.run.dtypes}


def _rewritten(placed: buffers.Placed, image: np.ndarray, bits: np.ndarray) -> np.ndarray:
    fresh = buffers.image_of(placed, bits)
    kept = buffers.outside_mask(placed)
    fresh[kept] = image[kept]
    return fresh


def output_bits(step: Step, call: Call, output: str) -> np.ndarray | None:
    """The bits of one output after a call, from the slot that returned it or the argument it overwrote."""
    for role, written in call.mutates.items():
        if written == output and role in step.placed:
            return buffers.elements(step.placed[role], step.after[role])
    for index, name in enumerate(call.returns):
        if name == output and index < len(step.data):
            data = step.data[index]
            if data is not None:
                return _read(data, step.record["returns"][index])
    return None


def gradient_bits(step: Step, role: str) -> np.ndarray | None:
    """The bits of the gradient of an input, in the shape it came in; None where no tensor came."""
    data = step.gradient_data.get(role)
    return None if data is None else _read(data, step.record["gradients"][role])


def _read(data: np.ndarray, slot: Mapping[str, Any]) -> np.ndarray | None:
    """The bits of a slot; None for a dtype that the suite does not know."""
    if slot["dtype"] not in buffers.ITEMSIZE:
        return None
    return data.view(buffers.bits_dtype(slot["dtype"])).reshape(slot["shape"])


def elements_of(run: Run) -> int:
    """Elements of x over all calls of a run: what its cost is counted in."""
    return math.prod(run.shape) * _calls(run)
