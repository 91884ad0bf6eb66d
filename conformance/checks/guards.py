"""Check the canaries: around and between what was supplied, around what the implementation allocated.

Also that every element of an output or a gradient was written: what starts as poison must not end so.
"""

import numpy as np

from conformance import buffers
from conformance.model import GRADIENT_OF, Finding
from conformance.run import gradient_bits
from conformance.seen import Seen

NAME = "guards"
REQUIREMENTS = ("MEM-WRITE", "MEM-UNWRITTEN")


def applies(seen: Seen) -> bool:
    return seen.observation.status == "completed"


def check(seen: Seen) -> list[Finding]:
    # In place, what was read from a band can be stored into it unchanged: canaries are NaNs, and
    # arithmetic may hand a NaN on. The repeated run has numbers there instead.
    again = seen.observation.again.steps if seen.observation.again is not None else []
    for step in (*seen.steps, *again):
        findings = [*_supplied(step), *_allocated(step)]
        if step.record["status"] == "returned":
            findings += _unwritten(seen, step)
        if findings:
            return findings
    return []


def _supplied(step) -> list[Finding]:
    found = []
    for role, placed in step.placed.items():
        stray = buffers.strays(placed, step.before[role], step.after[role])
        if stray is not None:
            where = {"tensor": role, "side": stray.side, "offset": stray.element_offset}
            found.append(Finding(NAME, "MEM-WRITE", "fail", str(stray), where))
    return found


def _allocated(step) -> list[Finding]:
    found = []
    for block, (before, after) in zip(step.record.get("allocations", []), step.bands, strict=True):
        size = buffers.ITEMSIZE.get(block["dtype"], 1)
        what = f"a {block['dtype']} tensor of shape {tuple(block['shape'])} that the implementation allocated"
        for side, band in (("before the start", before), ("past the end", after)):
            broken = np.flatnonzero(band != _canaries(block, side, len(band)))
            if len(broken):
                first = int(broken[-1]) - len(band) if side.startswith("before") else int(broken[0])
                message = (
                    f"{what}: {len(broken)} bytes written {side}; the nearest lies {first} bytes "
                    f"({first // size} elements) from {'its start' if first < 0 else 'its end'}"
                )
                where = {"tensor": "allocation", "side": side}
                found.append(Finding(NAME, "MEM-WRITE", "fail", message, where))
    return found


def _canaries(block, side: str, length: int) -> np.ndarray:
    """What a band held before the call; a tensor of an odd number of bytes shifts the one behind it."""
    pair = np.array([buffers.ALLOCATED & 0xFF, buffers.ALLOCATED >> 8], np.uint8)
    shift = block["extent"] % 2 if side == "past the end" else 0
    return np.resize(np.roll(pair, -shift), length)


def _unwritten(seen: Seen, step) -> list[Finding]:
    found = []
    outputs = [(name, *_poisonable(seen, step, name)) for name in seen.expected_outputs]
    gradients = [(GRADIENT_OF[role], *_gradient(step, role)) for role in step.gradient_data]
    for name, bits, dtype in (*outputs, *gradients):
        if bits is None or not bits.size:
            continue
        untouched = bits == buffers.pattern(buffers.POISON, dtype)
        if untouched.any():
            index = [int(i) for i in np.argwhere(untouched)[0]]
            message = (
                f"{name}: {int(untouched.sum())} of {bits.size} elements were never written; "
                f"the first is {name}{index}"
            )
            found.append(Finding(NAME, "MEM-UNWRITTEN", "fail", message, {"tensor": name, "index": index}))
    return found


def _gradient(step, role: str):
    """(bits, dtype) of a gradient whose memory started as poison; (None, "") for any other."""
    slot, bits = step.record["gradients"][role], gradient_bits(step, role)
    return (bits, slot["dtype"]) if bits is not None and slot["poisonable"] else (None, "")


def _poisonable(seen: Seen, step, name: str):
    """(bits, dtype) of an output whose memory started as poison; (None, "") for any other."""
    for role, written in seen.call.mutates.items():
        if written == name:
            if role in ("out", "residual_out") and role in step.placed:
                return buffers.elements(step.placed[role], step.after[role]), step.placed[role].dtype
            return None, ""
    if name in seen.call.returns:
        index = seen.call.returns.index(name)
        if index < len(step.data) and step.data[index] is not None:
            slot = step.record["returns"][index]
            supplied = slot["buffer"] in ("out", "residual_out")
            if (slot["poisonable"] or supplied) and slot["dtype"] in buffers.ITEMSIZE:
                bits = step.data[index].view(buffers.bits_dtype(slot["dtype"])).reshape(slot["shape"])
                return bits, slot["dtype"]
    return None, ""
