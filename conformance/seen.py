"""What the checks look at: an observation with its bytes read as numbers, and the oracle beside them.

Everything is computed on first use and kept, so a check that asks nothing costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from conformance import buffers
from conformance.model import DTYPES, Call, Run
from conformance.numerics import accuracy
from conformance.run import Observation, Step, elements_of, output_bits

_DEVICE_ELEMENTS = 1 << 16  # below, a GPU's launches cost more than a CPU's arithmetic
EPS_DEFAULTS = (1e-6, 1e-5, 2.0**-23)
"""What a call may use where eps is left out: the two of the models, and torch's machine epsilon of fp32."""


def to_float64(bits: np.ndarray, dtype: str, device: str) -> torch.Tensor:
    """The exact values of `bits` as float64, same shape."""
    signed = np.ascontiguousarray(bits).view(f"<i{bits.dtype.itemsize}")
    return torch.from_numpy(signed.copy()).to(device).view(getattr(torch, dtype)).to(torch.float64)


@dataclass(frozen=True)
class Output:
    """One output of one call."""

    name: str
    bits: np.ndarray  # in the shape it came in
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    overwrites: str | None  # the argument that holds it, where a mutation brought it
    slot: Mapping[str, Any]  # the worker's record of the returned tensor; {} for a mutation


class View:
    """One call, or the 64 of a chain laid under each other: what is judged as one tensor."""

    def __init__(self, run: Run, call: Call, steps: list[Step], interpreted: bool, device: str) -> None:
        self.run, self.call, self.steps, self.interpreted = run, call, steps, interpreted
        self.run_device = device
        large = elements_of(run) > _DEVICE_ELEMENTS
        self.device = device if large else "cpu"

    def output(self, name: str) -> Output | None:
        """The output `name`, steps laid under each other; None where there is none or it cannot be read."""
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
        y, residual_out = self.output("y"), self.output("residual_out")
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
        return [View(self.run, self.call, g, o.interpreted, o.device) for g in groups]
