"""What the checks look at: an observation with its bytes read as numbers, and the oracle beside them.

Everything is computed on first use and kept, so a check that asks nothing costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from conformance import buffers
from conformance.model import DTYPES, GRADIENT_OF, Call, Run
from conformance.numerics import accuracy
from conformance.numerics.gradients import GradientProblem
from conformance.run import Observation, Step, elements_of, gradient_bits, output_bits

_DEVICE_ELEMENTS = 1 << 16  # below, a GPU's launches cost more than a CPU's arithmetic
EPS_DEFAULTS = (1e-6, 1e-5, 2.0**-23)
"""What a call may use where eps is left out: the two of the models, and torch's machine epsilon of fp32."""


def to_float64(bits: np.ndarray, dtype: str, device: str) -> torch.Tensor:
    """The exact values of `bits` as float64, same shape."""
    signed = np.ascontiguousarray(bits).view(f"<i{bits.dtype.itemsize}")
    return torch.from_numpy(signed.copy()).to(device).view(getattr(torch, dtype)).to(torch.float64)


@dataclass(frozen=True)
class Output:
    """One output of one call, or one gradient (dx, dresidual, dweight)."""

    name: str
    bits: np.ndarray  # in the shape it came in
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    overwrites: str | None  # the argument that holds it, where a mutation brought it
    slot: Mapping[str, Any]  # the worker's record of the returned tensor; {} for a mutation


class View:
    """One call, or the 64 of a chain laid under each other: what is judged as one tensor.

    origin: the view of the call that made the graph, where this one is a second backward over it.
    """

    def __init__(
        self, run: Run, call: Call, steps: list[Step], interpreted: bool, device: str,
        origin: View | None = None,
    ) -> None:  # fmt: skip
        self.run, self.call, self.steps, self.interpreted = run, call, steps, interpreted
        self.run_device = device
        self._origin = self if origin is None else origin
        large = elements_of(run) > _DEVICE_ELEMENTS
        self.device = device if large else "cpu"

    @property
    def has_forward(self) -> bool:
        """Whether y was computed here; False for a backward alone, over the graph of an earlier call."""
        return all(step.forward for step in self.steps)

    @property
    def has_backward(self) -> bool:
        """Whether gradients were asked here; False where that comes in a later step."""
        return all(step.backward for step in self.steps)

    def output(self, name: str) -> Output | None:
        """The output `name`, steps laid under each other; None where there is none or it cannot be read."""
        if not self.has_forward:
            return None
        parts: list[Output] = []
        for step in self.steps:
            part = _output(self.call, step, name)
            if part is None:
                return None
            parts.append(part)
        first = parts[0]
        if len(parts) == 1:
            return first
        bits = np.concatenate([p.bits.reshape(-1, p.shape[-1]) for p in parts])
        return Output(
            name, bits, first.dtype, bits.shape, first.strides, first.device, first.overwrites, first.slot
        )

    def values(self, name: str) -> torch.Tensor | None:
        """An output's exact values, float64 (n_rows, hidden_size); None where shape or dtype forbid it."""
        output = self.output(name)
        if output is None or output.dtype not in (*DTYPES, "float64"):
            return None
        if output.bits.size != self.n_rows * self.run.hidden_size:
            return None
        return to_float64(output.bits, output.dtype, self.device).reshape(-1, self.run.hidden_size)

    @property
    def n_rows(self) -> int:
        return sum(self.inputs_of(s, "x").size for s in self.steps) // self.run.hidden_size

    @staticmethod
    def inputs_of(step: Step, role: str) -> np.ndarray:
        return step.bits[role]

    def input(self, role: str) -> torch.Tensor | None:
        """An input's exact values, float64: (n_rows, hidden_size), a weight (hidden_size,); or None."""
        return self.present(role) if role in self.run.dtypes else None

    def present(self, role: str) -> torch.Tensor:
        """`input` for a role that the run has, as every run has x; raises KeyError for another."""
        steps = self.steps[:1] if role == "weight" else self.steps
        dtype = self.run.dtypes[role]
        parts = [to_float64(s.bits[role], dtype, self.device) for s in steps]
        if role == "weight":
            return parts[0]
        return torch.cat([p.reshape(-1, self.run.hidden_size) for p in parts])

    @cached_property
    def problem(self) -> accuracy.Problem:
        """The question in float64, with the eps that was passed (or the first of the allowed defaults)."""
        return self.problem_at(EPS_DEFAULTS[0] if self.run.eps is None else self.run.eps)

    def problem_at(self, eps: float) -> accuracy.Problem:
        y, residual_out = self._origin.output("y"), self._origin.output("residual_out")
        stored = residual_out.dtype if residual_out is not None else ""
        offset = self.run.weight_offset
        return accuracy.Problem(
            x=self.present("x"), residual=self.input("residual"), weight=self.input("weight"), eps=eps,
            weight_offset=self.call.weight_offset if offset is None else offset,
            x_dtype=self.run.dtypes["x"],
            residual_dtype=stored if stored in DTYPES else self.run.dtypes.get("residual", ""),
            weight_dtype=self.run.dtypes.get("weight", ""),
            y_dtype=y.dtype if y is not None else self.run.dtypes["x"],
        )  # fmt: skip

    @cached_property
    def explanation(self) -> accuracy.Explanation | None:
        """Which conventions explain y; None where y cannot be read as numbers."""
        values = self.values("y")
        if values is None:
            return None
        found = accuracy.explain(self.problem, values)
        if self.run.eps is None and not found.conventions:
            for eps in EPS_DEFAULTS[1:]:
                other = accuracy.explain(self.problem_at(eps), values)
                if other.conventions:
                    self.__dict__["problem"] = self.problem_at(eps)
                    return other
        return found

    # --- gradients -------------------------------------------------------------------------------------

    def upstream(self, name: str) -> torch.Tensor | None:
        """The gradient that arrives as "dy" or "dresidual_out", float64 (n_rows, hidden_size); or None."""
        bits = self.steps[-1].bits.get(name)
        if bits is None:
            return None
        return to_float64(bits, self.run.dtype_of(name), self.device).reshape(-1, self.run.hidden_size)

    def gradient(self, role: str) -> Output | None:
        """The gradient of an input, by the input's name; None where no plain tensor came back."""
        step = self.steps[-1]
        bits = gradient_bits(step, role)
        if bits is None:
            return None
        slot = step.record["gradients"][role]
        return Output(
            GRADIENT_OF[role], bits, slot["dtype"], tuple(slot["shape"]), tuple(slot["strides"]),
            slot["device"], None, slot,
        )  # fmt: skip

    def gradient_values(self, role: str) -> torch.Tensor | None:
        """A gradient's exact values: float64 (n_rows, hidden_size), of a weight (hidden_size,); or None.

        None where shape or dtype do not allow it: another number of elements, no floating dtype.
        """
        found = self.gradient(role)
        if found is None or found.dtype not in (*DTYPES, "float64"):
            return None
        shape = (self.run.hidden_size,) if role == "weight" else (self.n_rows, self.run.hidden_size)
        if found.bits.size != math.prod(shape):
            return None
        return to_float64(found.bits, found.dtype, self.device).reshape(shape)

    @cached_property
    def gradient_problem(self) -> GradientProblem:
        """The backward's question in float64, with the eps that explains y."""
        origin = self._origin
        if self.run.eps is None:
            _ = origin.explanation  # says which of the defaults it is, and puts that into the problem
        dtypes = self.run.dtypes
        return GradientProblem(
            forward=origin.problem, dy=self.upstream("dy"), dresidual_out=self.upstream("dresidual_out"),
            dx_dtype=dtypes["x"], dresidual_dtype=dtypes.get("residual", ""),
            dweight_dtype=dtypes.get("weight", ""),
        )  # fmt: skip

    @cached_property
    def numbers(self) -> dict[str, float] | None:
        """Signed bias, row gain and ULP histogram under the convention that explains y; None without one."""
        found, values = self.explanation, self.values("y")
        if found is None or values is None or not found.conventions:
            return None
        return accuracy.statistics(self.problem, found.conventions[0], values)


def _output(call: Call, step: Step, name: str) -> Output | None:
    for role, written in call.mutates.items():
        if written == name and role in step.placed:
            p = step.placed[role]
            held = buffers.elements(p, step.after[role])
            return Output(name, held, p.dtype, p.shape, p.strides, "", role, {})
    bits = output_bits(step, call, name)
    if bits is None:
        return None
    slot = step.record["returns"][call.returns.index(name)]
    return Output(
        name, bits, slot["dtype"], tuple(slot["shape"]), tuple(slot["strides"]), slot["device"], None, slot
    )


class Seen:
    """One observation, ready for the checks."""

    def __init__(self, observation: Observation, grade: str) -> None:
        self.run, self.call, self.grade = observation.run, observation.call, grade
        self.observation = observation
        self.steps = observation.steps
        self.expected_outputs = ("y",) if self.run.mode == "none" else ("y", "residual_out")

    @property
    def trains(self) -> bool:
        """Whether gradients were asked for."""
        return self.run.trains

    @property
    def differentiable(self) -> bool:
        """Whether any output, in any call, had a graph behind it."""
        return any(step.record.get("graph") for step in self.steps)

    @property
    def returned(self) -> bool:
        """Whether every call came back with a result."""
        done = self.observation.status == "completed"
        return done and all(s.record["status"] == "returned" for s in self.steps)

    @property
    def special_question(self) -> str:
        """The requirement on a layout, alignment or mix of dtypes that this run asks about; "" for none."""
        asked = [r for r in self.run.requirements if r.startswith(("STRIDE-", "ALIGN-", "DTYPE-"))]
        return asked[0] if asked and self.run.features else ""

    @cached_property
    def views(self) -> list[View]:
        """The calls to judge: one a step, and a chain as one."""
        o = self.observation
        groups = [self.steps] if self.run.scenario == "chain" else [[s] for s in self.steps]
        views: list[View] = []
        for group in groups:
            origin = None if group[0].forward or not views else views[0]
            views.append(View(self.run, self.call, group, o.interpreted, o.device, origin))
        return views

    @property
    def backwards(self) -> list[View]:
        """The calls whose gradients are judged, in the order in which they were asked."""
        return [view for view in self.views if view.has_backward]
