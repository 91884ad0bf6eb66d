"""Check what came back, before any number is looked at: tensors, their shape, dtype, device and memory."""

from collections.abc import Mapping

from conformance.model import SHORT_DTYPE, Finding
from conformance.seen import Output, Seen, View

NAME = "outputs"
REQUIREMENTS = (
    "OUTPUT-TYPE", "OUTPUT-SHAPE", "OUTPUT-DTYPE", "OUTPUT-DEVICE", "OUTPUT-STRIDE", "OUTPUT-ALIAS",
    "OUTPUT-PARAMETER", "RESIDUAL-WRITTEN", "RESIDUAL-DTYPE",
)  # fmt: skip

_UNANSWERABLE = (
    "weight_too_long", "weight_too_short", "weight_2d", "residual_rows", "residual_width", "integer_x",
)  # fmt: skip
"""Faults with which no output can be right, so none is looked at."""

_ORDER = ("bfloat16", "float16", "float32", "float64")


def applies(seen: Seen) -> bool:
    return seen.returned and seen.run.fault not in _UNANSWERABLE


def check(seen: Seen) -> list[Finding]:
    findings = []
    for view in seen.views:
        if not view.has_forward:
            continue  # a second backward over the graph of an earlier call
        for name in seen.expected_outputs:
            findings += _slot(view, name)
            output = view.output(name)
            if output is not None:
                findings += _one(view, output)
        if findings:
            break
    return findings


def _slot(view: View, name: str) -> list[Finding]:
    """Whether there is an output `name` at all, as a plain tensor."""
    if name in view.call.mutates.values():
        return []
    record = view.steps[0].record
    missing = "RESIDUAL-WRITTEN" if name == "residual_out" else "OUTPUT-TYPE"
    if name not in view.call.returns:
        message = f"{name} is neither returned nor written to any argument"
        return [Finding(NAME, missing, "fail", message)]
    index = view.call.returns.index(name)
    slots = record["returns"]
    if index >= len(slots):
        message = f"{len(slots)} values came back, but {name} should be number {index + 1}"
        return [Finding(NAME, missing, "fail", message)]
    slot = slots[index]
    if slot["kind"] != "tensor":
        message = f"{name} is a {slot['type']}, but should be a plain torch.Tensor"
        return [Finding(NAME, "OUTPUT-TYPE", "fail", message)]
    return []


def _one(view: View, output: Output) -> list[Finding]:
    name, run, found = output.name, view.run, []
    shape = run.shape if len(view.steps) > 1 else view.steps[0].placed["x"].shape
    # A chain's output is all calls laid under each other: look at the first call's own.
    actual = tuple(output.slot["shape"]) if output.slot else (shape if len(view.steps) > 1 else output.shape)
    if actual != tuple(shape):
        message = f"{name}.shape is {actual}, but should be {tuple(shape)}"
        found.append(Finding(NAME, "OUTPUT-SHAPE", "fail", message))
    found += _dtype(view, output)
    if output.device and output.device != view.run_device:
        message = f"{name} is on {output.device}, but should be on {view.run_device}, where x is"
        found.append(Finding(NAME, "OUTPUT-DEVICE", "fail", message))
    if output.slot:
        found += _memory(view, output)
    return found


def _dtype(view: View, output: Output) -> list[Finding]:
    run, name = view.run, output.name
    x, weight, residual = (run.dtypes.get(r) for r in ("x", "weight", "residual"))
    if name == "y":
        own, other, requirement = x, weight, "OUTPUT-DTYPE"
    else:
        own, other, requirement = residual, x, "RESIDUAL-DTYPE"
    wider = _promoted(own, other)
    if output.dtype == own or (name == "y" and view.call.promotes and output.dtype == wider):
        return []
    told = f"{name}.dtype is {output.dtype}, but should be {own}"
    if output.dtype == wider or (name == "y" and output.dtype == _promoted(own, residual)):
        message = f"{told}: promoted from {_words(run.dtypes)}, which is not declared"
        return [Finding(NAME, requirement, "warn", message)]
    return [Finding(NAME, requirement, "fail", told)]


def _promoted(a: str | None, b: str | None) -> str | None:
    """The dtype that torch's promotion gives for two floating tensors."""
    if a is None or b is None or a == b:
        return a if b is None else b
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    return max(a, b, key=_ORDER.index)


def _words(dtypes: Mapping[str, str]) -> str:
    return ", ".join(f"{role} {SHORT_DTYPE[d]}" for role, d in dtypes.items())


def _memory(view: View, output: Output) -> list[Finding]:
    """Whose memory a returned tensor is: its own, or the argument that the call says it overwrites."""
    found, slot, name = [], output.slot, output.name
    owner = slot["buffer"]
    wants_out = name == "y" and "out" in view.steps[0].placed
    if wants_out and owner != "out":
        message = "an out tensor was passed, but y came back in other memory"
        found.append(Finding(NAME, "OUTPUT-PARAMETER", "fail", message))
    elif owner is not None and owner not in ("out", "residual_out") and view.call.mutates.get(owner) != name:
        message = f"{name} is returned in the memory of {owner}; it should be a tensor of its own"
        found.append(Finding(NAME, "OUTPUT-ALIAS", "fail", message))
    if owner is None and _shares(output.shape, output.strides):
        message = (
            f"{name}.stride() is {output.strides} for shape {output.shape}: elements share memory, so that "
            "writing one changes others; it should have strides of its own"
        )
        found.append(Finding(NAME, "OUTPUT-STRIDE", "fail", message))
    elif owner is None and not _usual(output.shape, output.strides):
        message = (
            f"{name}.stride() is {output.strides} for shape {output.shape}, but should be 1 in the last "
            "dimension, and no two elements should share memory"
        )
        found.append(Finding(NAME, "OUTPUT-STRIDE", "warn", message))
    return found


def _shares(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether a dimension longer than 1 has stride 0: all along it is one element. No kernel needs that."""
    return 0 not in shape and any(s == 0 and n > 1 for s, n in zip(strides, shape, strict=True))


def _usual(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether no two elements share memory and the last dimension has stride 1.

    Any dense order is let through as well: torch's own operations give a transposed y for a transposed x.
    """
    if _dense(shape, strides):
        return True
    past = 1  # one more than the farthest offset so far
    for stride, length in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if stride < past:
            return False
        past += stride * (length - 1)
    return shape[-1] == 1 or strides[-1] == 1


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements fill their memory without overlap or gap, in any order of the dimensions."""
    expected = 1
    for stride, length in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if length == 0:
            return True
        if stride != expected:
            return False
        expected *= length
    return True
