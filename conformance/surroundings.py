"""Whether memory around the inputs took part in a result: what the bench asks after a failure.

Bands and gaps hold NaNs, so a NaN that no input explains may have been read there. Then the run is made again
with finite numbers in their place, and a result that is another one has read them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.model import GRADIENT_OF
from conformance.run import Observation, gradient_bits, output_bits

FINITE_WORD = 0x3C3C  # as fp16 1.06, as bf16 and fp32 0.0115

_LAYOUTS = ("STRIDE-", "ALIGN-", "GRADMODE-DY-LAYOUT")
"""How the requirements on a layout start: what is read between rows is named for them."""

_FLOATING = ("float16", "bfloat16", "float32", "float64")


def nan_appears(seen: Observation) -> bool:
    """Whether y or a gradient of the last call has a NaN though nothing that was supplied has one."""
    from conformance.seen import to_float64

    if not seen.steps or seen.steps[-1].record.get("status") != "returned":
        return False
    supplied = seen.steps[-1].bits.items()
    if not all(bool(to_float64(b, seen.run.dtype_of(r), "cpu").isfinite().all()) for r, b in supplied):
        return False
    return any(bool(to_float64(bits, dtype, "cpu").isnan().any()) for _, bits, dtype in _results(seen))


def outside_matters(seen: Observation, again: Observation) -> tuple[str, str]:
    """The requirement that a wrong result violates by depending on memory outside the inputs, and its name.

    Both are "" where no result changed.
    """
    other = {name: bits for name, bits, _ in _results(again)}
    for name, bits, _ in _results(seen):
        twin = other.get(name)
        if twin is None or twin.shape != bits.shape or twin.dtype != bits.dtype or (twin == bits).all():
            continue
        asked = [r for r in seen.run.requirements if r.startswith(_LAYOUTS)]
        return asked[0] if asked and seen.run.layouts else "MEM-READ", name
    return "", ""


def _results(seen: Observation) -> Iterator[tuple[str, np.ndarray, str]]:
    """(name, bits, dtype) of y and of every gradient of the last call that made it, floating ones only."""
    forward = [step for step in seen.steps if step.forward]
    if forward:
        y, dtype = output_bits(forward[-1], seen.call, "y"), _dtype_of_y(seen)
        if y is not None and dtype in _FLOATING:
            yield "y", y, dtype
    last = seen.steps[-1]
    for role, gradient in GRADIENT_OF.items():
        bits = gradient_bits(last, role)
        if bits is not None and last.record["gradients"][role]["dtype"] in _FLOATING:
            yield gradient, bits, last.record["gradients"][role]["dtype"]


def _dtype_of_y(seen: Observation) -> str:
    forward = [step for step in seen.steps if step.forward][-1]
    for role, output in seen.call.mutates.items():
        if output == "y" and role in forward.placed:
            return forward.placed[role].dtype
    if "y" in seen.call.returns and seen.call.returns.index("y") < len(forward.data):
        return forward.record["returns"][seen.call.returns.index("y")].get("dtype", "")
    return ""
