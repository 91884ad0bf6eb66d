"""Whether a call has gradients: what trials find, what a declaration says, and how a user is told."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from in_process import call

from conformance.calling import targets
from conformance.calling.differentiable import _questions, try_gradients
from conformance.calling.gradients import with_gradients
from conformance.calling.invoke import invoke
from conformance.model import DTYPES, Call, Implementation


def norm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def fused(x, residual, weight, eps):
    return norm(x + residual, weight, eps), x + residual


@torch.no_grad()
def forward_only(x, weight, eps):
    return norm(x, weight, eps)


@torch.inference_mode()
def in_inference_mode(x, weight, eps):
    return norm(x, weight, eps)


def refuses_gradients(x, weight, eps):
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        raise ValueError("forward only: call it under torch.no_grad()")
    return norm(x, weight, eps)


def always_raises(x, weight, eps):
    raise RuntimeError("not on this machine")


def only_bf16(x, weight, eps):
    return norm(x, weight, eps) if x.dtype == torch.bfloat16 else forward_only(x, weight, eps)


def only_the_weight(x, weight, eps):
    return forward_only(x, weight, eps) if x.requires_grad else norm(x, weight, eps)


def only_wide(x, weight, eps):
    return norm(x, weight, eps) if x.shape[-1] > 1000 else forward_only(x, weight, eps)


def grad_mode_left_off(x, weight, eps):
    if x.dtype == torch.float32:
        torch.set_grad_enabled(False)
        return x.detach()
    return norm(x, weight, eps)


def into_out(out, x, weight, eps):
    out.copy_(norm(x, weight, eps))


LIBRARY = torch.library.Library("conformance_differentiable_tests", "DEF")
LIBRARY.define("norm(Tensor x, Tensor weight, float eps) -> Tensor")
LIBRARY.impl("norm", lambda x, weight, eps: norm(x.detach(), weight.detach(), eps), "CPU")


@torch.library.custom_op("conformance_differentiable_tests::custom", mutates_args=())
def custom(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return norm(x, weight, eps)


@torch.library.custom_op("conformance_differentiable_tests::trained", mutates_args=())
def trained(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return norm(x, weight, eps)


trained.register_autograd(lambda ctx, dy: (dy, dy.sum(0), None))


class Module(torch.nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, x):
        return norm(x.detach(), self.weight, self.eps)


FOUND: list[tuple[Any, bool | None, str]] = [
    (norm, True, "through autograd"),
    (only_bf16, True, "through autograd"),
    (only_the_weight, True, "through autograd"),
    (only_wide, True, "through autograd"),
    (grad_mode_left_off, True, "through autograd"),
    (trained, True, "through autograd"),
    (forward_only, False, "no output ever requires grad"),
    (in_inference_mode, False, "no output ever requires grad"),
    (torch.ops.conformance_differentiable_tests.norm, False, "no output ever requires grad"),
    (custom, False, "no output ever requires grad"),
    (refuses_gradients, False, "refuses inputs that require a gradient: ValueError: forward only"),
    (always_raises, None, "could not be tried: RuntimeError: not on this machine"),
]


@pytest.mark.parametrize("row", range(len(FOUND)))
def test_what_trials_find(row: int) -> None:
    """One graph in any trial is enough; without one it is forward only, unless nothing could be tried."""
    function, differentiable, why = FOUND[row]
    found = try_gradients(call(function), "cpu")
    assert found.differentiable is differentiable
    assert why in found.why
    assert torch.is_grad_enabled()


def test_the_fused_add_and_a_module_are_tried() -> None:
    """Both outputs count, and a module's weight is its Parameter."""
    assert try_gradients(call(fused, "residual"), "cpu").differentiable is True
    module = targets.recognise(Module, "pkg:Module").calls["none"]
    assert try_gradients(module, "cpu").differentiable is True


def test_an_out_parameter_that_gets_a_graph_counts() -> None:
    """What is written into a supplied tensor is an output."""
    found = targets.recognise(into_out, "pkg:into_out", "cpu").calls["none"]
    assert found.mutates == {"out": "y"}
    assert try_gradients(found, "cpu").differentiable is True


def test_every_dtype_and_every_input_is_tried() -> None:
    """All together in each dtype, then each alone, then the other sizes."""
    asked = list(_questions(call(fused, "residual")))
    for dtype in DTYPES:
        wanted = [w for shape, d, w in asked if d == dtype and shape == (6, 256)]
        assert wanted == [("x", "residual", "weight"), ("x",), ("residual",), ("weight",)]
    assert {shape for shape, _, _ in asked} == {(6, 256), (6, 4096), (2, 3, 256)}


def test_the_first_graph_ends_the_trials() -> None:
    """One call is made of a differentiable op, and 15 of a plain norm that is forward only."""
    made: list[int] = []

    def counted(one: Call, arguments: dict[str, Any]) -> Any:
        made.append(1)
        return invoke(one, arguments)

    try_gradients(call(norm), "cpu", counted)
    assert len(made) == 1
    try_gradients(call(forward_only), "cpu", counted)
    assert len(made) == 1 + 15


def test_a_compiled_call_is_not_tried() -> None:
    """Each trial would be compiled anew."""
    found = try_gradients(call(always_raises, compiled=True), "cpu")
    assert found.differentiable is None
    assert "compiled" in found.why


def told(one: Call, mode: str = "none", **given: Any) -> tuple[Call, str]:
    """The completed call, and the sentence about it."""
    found = with_gradients(Implementation("mine", {mode: one}), "cpu", **given)
    return found.calls[mode], " ".join(found.recognised)


def test_a_declaration_wins() -> None:
    """What is declared is not tried, right or wrong."""
    assert told(call(forward_only, differentiable=True)) == (
        call(forward_only, differentiable=True),
        "none: differentiable through autograd",
    )
    assert told(call(norm, differentiable=False))[1] == "none: forward only, as it declares"


def test_what_is_known_is_not_tried_again() -> None:
    """A worker that replaces another one is told; a mode that it was not told of is tried."""
    assert told(call(always_raises), known={"none": True})[0].differentiable is True
    assert told(call(norm), known={})[0].differentiable is True


def test_what_overwrites_its_input_is_not_tried() -> None:
    """In place nothing can be differentiated, so nothing is said of it."""
    one = call(always_raises, "residual_in_place")
    assert told(one, "residual_in_place") == (one, "")


def test_without_trials_nothing_is_known() -> None:
    """A process that died in a trial is replaced by one that makes none."""
    found = targets.load("variant:llama_module", "cpu", probe=False)
    assert {c.differentiable for c in found.calls.values()} == {None}
    assert targets.load("variant:llama_module", "cpu").calls["none"].differentiable is True
