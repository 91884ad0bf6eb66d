"""One trial call on tensors that can be told apart: what came back, and what was overwritten with what.

The values are compared roughly (5 % of the largest): enough to tell y from the sum and the statistic, far
too coarse to tell right from wrong. Nothing random is drawn, so the generators stay as they were.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import torch

from conformance.calling.invoke import invoke
from conformance.calling.readings import BUFFERS, Candidate, Evidence
from conformance.model import Call

SHAPES = ((6, 256), (6, 4096), (2, 3, 256))
"""Shapes to try, in this order: a small one, a model's width, and a rank that model code has."""

EPS = 1e-3
_ROUGH = 0.05


def gather_evidence(
    candidate: Candidate,
    device: torch.device | str = "cpu",
    dtypes: Iterable[str] = ("float32", "float16", "bfloat16"),
    run_call: Callable[[Call, dict[str, Any]], Any] = invoke,
) -> Evidence:
    """Make one call of the candidate, with the first shape and dtype that it takes, and say what it did.

    Whatever the call raises, SystemExit and test outcomes included, ends up in `Evidence.error`: the first
    such error, since the first trial is the most ordinary one.
    """
    error = ""
    for shape, dtype in product(SHAPES, tuple(dtypes)):
        trial = Trial(candidate, shape, torch.device(device), getattr(torch, dtype))
        try:
            return trial.evidence(run_call(candidate.call, dict(trial.arguments)))
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            leave_after_a_device_fault(torch.device(device), raised)
            error = error or f"{type(raised).__name__}: {raised}".splitlines()[0][:200]
    return Evidence(error=error)


def leave_after_a_device_fault(device: torch.device, raised: BaseException) -> None:
    """End the process where the trial broke its device: the fault is sticky, and every later call would fail.

    Whoever started this worker starts another one, and does without a trial.
    """
    if device.type != "cuda":
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        sys.stderr.write(f"the trial call broke the device: {raised}\n")
        sys.stderr.flush()
        os._exit(70)


def wave(shape: tuple[int, ...], step: float, scale: float, device: torch.device) -> torch.Tensor:
    """Return float64 values between -scale and scale, from the fractions of the multiples of `step`."""
    count = math.prod(shape)
    turns = torch.arange(1, count + 1, dtype=torch.float64, device=device) * step
    return ((turns - turns.floor()) * 2 - 1).mul(scale).reshape(shape)


class Trial:
    """The arguments of one trial, the copies to compare with, and the outputs that are known."""

    def __init__(
        self, candidate: Candidate, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype
    ) -> None:
        call = candidate.call
        self.n_rows = math.prod(shape[:-1])
        given = {
            "x": wave(shape, 0.6180339887498949, 3.0, device).to(dtype),
            "residual": wave(shape, 0.4142135623730951, 4.0, device).to(dtype),
            "weight": wave(shape[-1:], 0.7320508075688772, 1.5, device).to(dtype),
        }
        if not candidate.fused:
            del given["residual"]
        if call.parameter("weight") is None:
            del given["weight"]
        self.known = _outputs(given, candidate.fused)
        self.inputs = {role: tensor.double() for role, tensor in given.items()}
        for parameter in call.parameters:
            if parameter.role in BUFFERS and parameter.required:
                given[parameter.role] = torch.full(shape, 77.0, dtype=dtype, device=device)
        self.before = {role: tensor.clone() for role, tensor in given.items()}
        self.arguments: dict[str, Any] = dict(given)
        if call.parameter("eps") is not None:
            self.arguments["eps"] = EPS

    def evidence(self, result: Any) -> Evidence:
        """Return what the call did, from its result and from the arguments as they are now."""
        if result is None:
            slots: list[Any] = []
        else:
            slots = list(result) if isinstance(result, (tuple, list)) else [result]
        tensors = {r: t for r, t in self.arguments.items() if isinstance(t, torch.Tensor)}
        changed = {
            role: self._equals(tensor, inputs=False)
            for role, tensor in tensors.items()
            if not torch.equal(tensor, self.before[role])
        }
        offsets = {o for s in (*slots, *tensors.values()) for o in self._offsets(s)}
        return Evidence(
            returned=tuple(self._equals(slot) for slot in slots),
            slots_alias=tuple(_alias(slot, tensors) for slot in slots),
            changed=changed,
            weight_offset=offsets.pop() if len(offsets) == 1 else None,
        )

    def _equals(self, value: Any, inputs: bool = True) -> str:
        if value is None:
            return "none"
        if not isinstance(value, torch.Tensor):
            return ""
        if value.numel() == self.n_rows:
            return "rrms"
        for name, _, expected in self.known:
            if _close(value, expected):
                return name
        if inputs and any(_close(value, tensor) for tensor in self.inputs.values()):
            return "input"
        return ""

    def _offsets(self, value: Any) -> list[float]:
        if not isinstance(value, torch.Tensor):
            return []
        return [offset for name, offset, expected in self.known if name == "y" and _close(value, expected)]


def _outputs(given: dict[str, torch.Tensor], fused: bool) -> list[tuple[str, float, torch.Tensor]]:
    """Every known output as (name, weight_offset, values): y for both offsets, the sum, y of x alone."""
    x = given["x"].double()
    weight = given["weight"].double() if "weight" in given else torch.ones_like(x[0])
    total = x + given["residual"].double() if fused else x

    def norm(row: torch.Tensor, offset: float) -> torch.Tensor:
        return row * torch.rsqrt(row.square().mean(-1, keepdim=True) + EPS) * (weight + offset)

    found = [("y", offset, norm(total, offset)) for offset in (0.0, 1.0)]
    if fused:
        found.append(("residual_out", 0.0, total))
        found.extend(("plain", offset, norm(x, offset)) for offset in (0.0, 1.0))
    return found


def _close(value: torch.Tensor, expected: torch.Tensor) -> bool:
    if value.numel() != expected.numel() or not value.is_floating_point():
        return False
    difference = (value.double().reshape(expected.shape) - expected).abs().max().item()
    return difference <= _ROUGH * expected.abs().max().item()


def _alias(value: Any, tensors: dict[str, torch.Tensor]) -> str:
    if not isinstance(value, torch.Tensor) or not value.numel():
        return ""
    pointer = value.untyped_storage().data_ptr()
    return next((r for r, t in tensors.items() if t.untyped_storage().data_ptr() == pointer), "")
