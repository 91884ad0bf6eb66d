"""Calls the backward of mutants and variants directly, on small tensors, and says what is wrong about it.

Run as a script, in a process of its own with TRITON_INTERPRET set, it prints JSON: kind -> name -> "" or the
first input on which something is wrong, and what. tests/test_mutants_backward.py reads it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance import mutants, variants
from conformance.calling.invoke import bind
from conformance.calling.targets import load
from conformance.model import Call
from conformance.processes import interpreter

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
TENSORS = ("x", "residual", "weight")
CONTROL = ("one_stage_dweight", "explicit_backward", "triton_backward")
"""Right ones that round once, as the mutants do but for their fault: held to the mutants' tolerance."""


@dataclass(frozen=True)
class Question:
    """One training run in small.

    wants: the inputs that require a gradient; alone: the one output that has one, where it is not each.
    """

    name: str
    x: torch.Tensor
    residual: torch.Tensor
    weight: torch.Tensor
    dy: torch.Tensor
    dresidual_out: torch.Tensor
    eps: float | None = 1e-5  # None: left out, and 1e-6 is right
    offset: float = 0.0
    wants: tuple[str, ...] = TENSORS
    alone: str = ""
    times: int = 1  # forward and backward
    retained: bool = False  # and a second backward over the last graph
    interleaved: bool = False  # another call goes forward and backward before the backward


def question(name, shape, dtype=F32, scale=1.0, seed=0, **changes) -> Question:
    """Normal values; rows of unlike scale, a weight of both signs."""
    torch.manual_seed(seed)
    rows = torch.tensor([1.0, 4.0, 0.25, 2.0]).repeat(-(-max(shape[0], 1) // 4))[: shape[0]]
    jump = scale * rows.reshape(-1, *[1] * (len(shape) - 1))
    x, residual, dy, dresidual_out = (torch.randn(shape) for _ in range(4))
    made = Question(
        name, (x * jump).to(dtype), (residual * jump).to(dtype), torch.randn(shape[-1]).to(dtype),
        dy.to(dtype), dresidual_out.to(dtype),
    )  # fmt: skip
    return replace(made, **changes)


def questions():
    for dtype in (F32, BF16, F16):
        plain = question("rows of unlike scale", (6, 33), dtype)
        yield plain
        yield replace(plain, name="the weight frozen", wants=("x", "residual"))
        yield replace(plain, name="x frozen", wants=("weight",))
        yield replace(plain, name="y alone", alone="y")
        yield replace(plain, name="residual_out alone", alone="residual_out")
        yield replace(plain, name="three times", times=3)
        yield replace(plain, name="retained", retained=True)
        yield replace(plain, name="two graphs", interleaved=True)
        yield question("257 rows", (257, 8), dtype)
        yield question("1000 columns", (3, 1000), dtype)
    narrow = question("fp32 residual and weight", (6, 33), BF16)
    yield replace(
        narrow, residual=torch.randn(6, 33), dresidual_out=torch.randn(6, 33), weight=torch.randn(33)
    )
    yield question("small", (3, 8), scale=1e-3)
    yield replace(plain := question("offset", (4, 8)), offset=1.0)
    zeros = plain.weight.clone()
    zeros[::3] = 0.0
    yield replace(plain, name="weights of zero", weight=zeros)
    yield replace(plain, name="parallel", dy=(plain.x + 0.01 * plain.dy + 1))
    yield replace(plain, name="transposed dy", dy=torch.randn(8, 4).t(), dresidual_out=torch.randn(8, 4).t())
    yield replace(plain, name="expanded dy", dy=torch.randn(()).expand(4, 8))
    yield question("rank 3", (2, 3, 8))
    yield question("rank 1", (8,))
    yield question("no rows", (0, 8))
    yield question("eps left out", (3, 32), scale=1e-3, eps=None)
    yield replace(
        plain := question("dx beyond fp16", (4, 33), F16, scale=1e-2, eps=1e-6), dy=(plain.dy * 2000).half()
    )
    yield replace(
        plain := question("dweight beyond fp16", (257, 8), F16),
        dy=(plain.dy * 5000).half(),
        wants=("weight",),
    )
    with_inf = (plain := question("Inf in dy", (4, 33))).dy.clone()
    with_inf[1, 3] = torch.inf
    yield replace(plain, dy=with_inf)
    yield question("4097 columns", (2, 4097))
    yield question("32769 rows", (32769, 2))
    yield question("4099 rows", (4099, 64))


def gradients(q: Question, call: Call, fused: bool) -> list[Any]:
    """[outputs, the gradients by name of each backward that is asked for]. Raises what the call raises."""
    seen = []
    tensors = {role: getattr(q, role).clone() for role in TENSORS if fused or role != "residual"}
    for role, tensor in tensors.items():
        tensor.requires_grad_(role in q.wants and call.backward is None)
    arriving = {"y": q.dy.clone() if q.dy.is_contiguous() else q.dy, "residual_out": q.dresidual_out}
    arriving = {o: g for o, g in arriving.items() if o in ("y", "residual_out")[: 1 + fused]}
    if q.alone:
        arriving = {o: g for o, g in arriving.items() if o == q.alone}
    for _ in range(q.times):
        outputs = _forward(call, tensors, q)
        kept = [o.clone() for o in outputs.values()]
        others = _other_call(call, tensors, arriving, q) if q.interleaved else {}
        copies = {name: g.clone() for name, g in others.items() if g is not None}
        for _ in range(1 + q.retained):
            given = {o: g.clone() if g.is_contiguous() else g for o, g in arriving.items()}
            found = _backward(call, tensors, outputs, given, q)
            changed = any(not _same(g, arriving[o]) for o, g in given.items())
            if changed and not call.consumes_dy:
                raise AssertionError("the gradient that arrived was changed")
            seen.append(found)
        if any(not _same(others[name], copy) for name, copy in copies.items()):
            raise AssertionError("a gradient was changed after it had been handed out")
    if any(not _same(o, k) for o, k in zip(outputs.values(), kept, strict=True)):
        raise AssertionError("an output was changed")
    for role, tensor in tensors.items():
        if tensor.grad is not None:
            raise AssertionError(f"{role}.grad was written")
        if tensor.requires_grad and role not in q.wants:
            raise AssertionError(f"{role}.requires_grad was switched on")
    return [outputs, seen]


def _other_call(call, tensors, arriving, q):
    """The gradients of a call with other contents, made between a forward and its backward."""
    moved = {role: (t.detach() * 2 + 1).requires_grad_(t.requires_grad) for role, t in tensors.items()}
    outputs = _forward(call, moved, q)
    return _backward(call, moved, outputs, {o: g.clone() for o, g in arriving.items()}, q)


def _forward(call, tensors, q):
    arguments = dict(tensors) if q.eps is None else {**tensors, "eps": q.eps}
    if q.offset:
        arguments["weight_offset"] = q.offset
    function = call.function
    if hasattr(function, "prepare"):  # a module has a weight of its own
        positional, named = bind(call, arguments)
        instance = function.prepare(tensors["x"], named)
        if tensors["weight"].requires_grad:
            tensors["weight"] = dict(instance.named_parameters())["weight"].requires_grad_()
        result = instance(*positional, **named)
    else:
        positional, named = bind(call, arguments)
        result = function(*positional, **named)
    slots = result if isinstance(result, (tuple, list)) else (result,)
    return dict(zip(call.returns, slots, strict=True))


def _backward(call, tensors, outputs, given, q):
    if call.backward is not None:
        known = {**tensors, **outputs, "dy": given.get("y"), "dresidual_out": given.get("residual_out")}
        for name, output in (("dy", "y"), ("dresidual_out", "residual_out")):
            if known[name] is None and output in outputs:
                known[name] = torch.zeros_like(outputs[output])
        found = call.backward.function(*(known[p.role] for p in call.backward.parameters))
        return dict(zip(call.backward.returns, found, strict=True))
    inputs = {f"d{role}": t for role, t in tensors.items() if t.requires_grad and role in q.wants}
    roots = {o: g for o, g in given.items() if outputs[o].requires_grad}
    if not roots:
        return dict.fromkeys(inputs)
    found = torch.autograd.grad(
        [outputs[o] for o in roots], list(inputs.values()), list(roots.values()),
        allow_unused=True, retain_graph=q.retained,
    )  # fmt: skip
    return dict(zip(inputs, found, strict=True))


def oracle(q: Question, fused: bool, offset: float, which: str) -> dict[str, tuple[torch.Tensor, Any]]:
    """dx, dresidual and dweight in float64, each with the size of the terms that may cancel in it.

    which: of the `exact` sum, of the sum as it is `stored`, or `mixed`, the stored one with the exact rrms.
    """
    exact = q.x.double() + q.residual.double() if fused else q.x.double()
    stored = (q.x.float() + q.residual.float()).to(q.residual.dtype).double() if fused else exact
    h, under_the_root = exact if which == "exact" else stored, stored if which == "stored" else exact
    rrms = 1 / (under_the_root.square().mean(-1, keepdim=True) + (1e-6 if q.eps is None else q.eps)).sqrt()
    x_hat = h * rrms
    total, dweight = torch.zeros_like(h), torch.zeros(h.shape[-1], dtype=torch.float64)
    size, dweight_size = torch.zeros_like(h), dweight
    if q.alone != "residual_out":
        a = q.dy.double() * (q.weight.double() + offset)
        along = x_hat * (a * x_hat).mean(-1, keepdim=True)
        total = rrms * (a - along)
        size = rrms * (a.abs() + x_hat.abs() * (a * x_hat).abs().mean(-1, keepdim=True))
        terms = (q.dy.double() * x_hat).reshape(-1, h.shape[-1])
        dweight, dweight_size = terms.sum(0), terms.abs().sum(0)
    if fused and q.alone != "y":
        total, size = total + q.dresidual_out.double(), size + q.dresidual_out.double().abs()
    return {"dx": (total, size), "dresidual": (total, size), "dweight": (dweight, dweight_size)}


def complaint(q: Question, call: Call, fused: bool, eager: bool, right: bool) -> str:
    """What is wrong about the gradients of one question; "" where nothing is.

    eager: in 16 bits its terms are rounded one by one, as eager operations do; right: it may be forward only.
    """
    try:
        outputs, seen = gradients(q, call, fused)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if call.backward is None and not any(o.requires_grad for o in outputs.values()):
        return "" if right else "no graph"
    # What cancels was computed in fp32, or rounded term by term.
    noise = max(3e-6, 2 * torch.finfo(q.x.dtype).eps) if eager else 3e-6
    offset = q.offset or call.weight_offset
    wanted = [oracle(q, fused, offset, which) for which in ("exact", "stored", "mixed")[: 1 + 2 * fused]]
    for found in seen:
        for role in q.wants:
            if role == "residual" and not fused:
                continue
            told = _differs(found.get(f"d{role}"), getattr(q, role), [w[f"d{role}"] for w in wanted], noise)
            if told and not (told == "None" and role == "weight" and q.alone == "residual_out"):
                return f"d{role}: {told}"
    return ""


def _differs(gradient, like, wanted, noise):
    if not isinstance(gradient, torch.Tensor):
        return "None" if gradient is None else type(gradient).__name__
    if gradient.shape != like.shape or gradient.dtype != like.dtype:
        return f"{tuple(gradient.shape)} {gradient.dtype}"
    for value, size in wanted:
        low, high = (value - noise * size).to(like.dtype), (value + noise * size).to(like.dtype)
        inside = (low <= gradient) & (gradient <= high)
        inside |= ~value.isfinite() & ~gradient.isfinite()  # Inf - Inf, in the order of the sums
        if bool(inside.all()):
            return ""
    return "other values"


def _same(a, b):
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


def first_complaint(spec: str, asked: list[Question], right: bool, eager: bool) -> str:
    """The first question on which a mutant or variant is wrong, and how."""
    implementation = load(spec, "cpu", probe=False)
    refuses = getattr((variants if right else mutants).load(spec.partition(":")[2]), "REFUSES", ())
    for mode, call in implementation.calls.items():
        for q in asked:
            if _cannot_be_asked(q, mode, call):
                continue
            told = complaint(q, call, mode == "residual", eager, right)
            if told and not (refuses and told.startswith(("ValueError", "TypeError"))):
                return f"{mode}, {q.name}, {q.x.dtype}: {told}"
    return ""


def _cannot_be_asked(q: Question, mode: str, call: Call) -> bool:
    eps = call.parameter("eps")
    if q.eps is None and (eps is None or eps.required):
        return True
    out = call.parameter("out")
    if out is not None and out.required:  # filled under no_grad
        return True
    if mode == "residual_in_place" or (q.offset and call.parameter("weight_offset") is None):
        return True
    return (q.alone == "residual_out" and mode == "none") or (call.promotes and q.weight.dtype != q.x.dtype)


def main() -> None:
    interpreter.repair()
    torch.set_num_threads(1)
    asked = list(questions())
    backward = [n for n in mutants.names() if mutants.label(n).backward]
    called = [n for n in backward if not mutants.label(n).breaks.startswith("MEM-")]
    found = {
        "mutants": {n: first_complaint(f"mutant:{n}", asked, False, False) for n in called},
        "variants": {n: first_complaint(f"variant:{n}", asked, True, True) for n in variants.names()},
        "control": {n: first_complaint(f"variant:{n}", asked, True, False) for n in CONTROL},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
