"""An explicit backward function beside a forward without a graph: used where nothing is left to guess."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from conformance.calling import targets
from conformance.model import Backward, Call

SOURCE = """
import torch


@torch.no_grad()
def forward(x, weight, eps=1e-6):
    rstd = torch.rsqrt(x.float().square().mean(-1) + eps)
    return (x.float() * rstd[:, None] * weight.float()).to(x.dtype), rstd


@torch.no_grad()
def fused_forward(x, residual, weight, eps=1e-6):
    total = (x.float() + residual.float()).to(x.dtype)
    y, rstd = forward(total, weight, eps)
    return y, total, rstd


def right(dy, x, weight, rstd):
    x_hat, a = x.float() * rstd[:, None], dy.float() * weight.float()
    dx = rstd[:, None] * (a - x_hat * (a * x_hat).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy.float() * x_hat).sum(0).to(weight.dtype)
"""


def module_of(text: str, name: str) -> ModuleType:
    """A module that was imported, with SOURCE in it."""
    made = ModuleType(name)
    exec(SOURCE + text, made.__dict__)
    sys.modules[name] = made
    return made


def loaded(text: str, function: str, name: str = "twins_under_test") -> tuple[Call, str]:
    """What is recognised of a function of the module, and the last sentence about it."""
    module_of(text, name)
    try:
        found = targets.load(f"{name}:{function}")
    finally:
        del sys.modules[name]
    (one,) = found.calls.values()
    return one, found.recognised[-1]


def backward_of(text: str, function: str) -> Backward | None:
    return loaded(text, function)[0].backward


def roles(backward: Backward | None) -> dict[str, str]:
    assert backward is not None
    return {p.name: p.role for p in backward.parameters}


USED = {
    "rms_norm": (
        "rms_norm = forward\ndef rms_norm_backward(dy, x, weight, rrms): return right(dy, x, weight, rrms)"
    ),
    "rms_norm_fwd": (
        "rms_norm_fwd = forward\ndef rms_norm_bwd(dout, x, w, rstd): return right(dout, x, w, rstd)"
    ),
    "norm_forward": (
        "norm_forward = forward\n"
        "def norm_backward(grad_output, inv_rms, input, gamma, eps=None): "
        "return right(grad_output, input, gamma, inv_rms)"
    ),
    "norm": "norm = forward\ndef norm_bwd(do, x, w, rsigma, sm_margin=0): return right(do, x, w, rsigma)",
    "n": "n = forward\ndef n_backward(g, x, w, invvar, *, eps=1e-6): return right(g, x, w, invvar)",
}  # fmt: skip


@pytest.mark.parametrize("function", USED)
def test_a_twin_whose_parameters_are_all_known_is_used(function: str) -> None:
    """By the usual endings and names; what comes back is told by its shape, and the user is told."""
    one, said = loaded(USED[function], function)
    assert one.differentiable is False
    assert one.backward is not None
    assert one.backward.returns == ("dx", "dweight")
    assert {"dy", "x", "weight", "rrms"} <= set(roles(one.backward).values())
    assert said.startswith("none: gradients by ")


def test_slots_are_named_by_shape() -> None:
    """dweight may come first, and what is neither is ignored."""
    text = (
        "rms_norm = forward\n"
        "def rms_norm_backward(dy, x, weight, rrms):\n"
        "    dx, dw = right(dy, x, weight, rrms)\n    return dw, None, dx"
    )
    found = backward_of(text, "rms_norm")
    assert found is not None
    assert found.returns == ("dweight", "", "dx")


FUSED = """
add_norm_fwd = fused_forward

def add_norm_bwd({parameters}):
    dx, dw = right(dout, {total}, weight, rstd)
    dx = (dx.float() + dres.float()).to(dx.dtype)
    return {back}
"""


@pytest.mark.parametrize(
    ("parameters", "total", "back", "returns"),
    [
        (
            "dout, dres, residual_out, weight, rstd",
            "residual_out",
            "dx, dx, dw",
            ("dx", "dresidual", "dweight"),
        ),
        ("dout, dres, residual_out, weight, rstd", "residual_out", "dx, dw", ("dx", "dweight")),
        ("x, weight, dout, rstd, dres", "x", "dx, dw", ("dx", "dweight")),
    ],
)
def test_a_fused_twin_reads_the_sum(parameters: str, total: str, back: str, returns: tuple[str, ...]) -> None:
    """An x without a residual beside it can only be the sum: x alone does not give x_hat."""
    found = backward_of(FUSED.format(parameters=parameters, total=total, back=back), "add_norm_fwd")
    assert roles(found)[total] == "residual_out"
    assert found is not None
    assert found.returns == returns


NOT_USED = {
    "another name": (
        "rms_norm = forward\ndef backward(dy, x, weight, rrms): return right(dy, x, weight, rrms)"
    ),
    "two of that name": (
        "rms_norm = forward\ndef rms_norm_backward(dy, x, weight, rrms): return right(dy, x, weight, rrms)\n"
        "def rms_norm_bwd(dy, x, weight, rrms): return right(dy, x, weight, rrms)"
    ),
    "an unknown parameter": (
        "rms_norm = forward\ndef rms_norm_backward(dy, x, weight, rrms, blocks): "
        "return right(dy, x, weight, rrms)"
    ),
    "no statistic": "rms_norm = forward\ndef rms_norm_backward(dy, x, weight): return dy, weight",
    "no dy": "rms_norm = forward\ndef rms_norm_backward(x, weight, rrms): return x, weight",
    "two of one meaning": (
        "rms_norm = forward\ndef rms_norm_backward(dy, dout, x, weight, rrms): "
        "return right(dy, x, weight, rrms)"
    ),
    "a residual in a plain norm": (
        "rms_norm = forward\ndef rms_norm_backward(dy, x, residual, weight, rrms): "
        "return right(dy, x, weight, rrms)"
    ),
    "it raises": "rms_norm = forward\ndef rms_norm_backward(dy, x, weight, rrms): raise ValueError('no')",
    "two that may be dx": (
        "rms_norm = forward\ndef rms_norm_backward(dy, x, weight, rrms): "
        "return (*right(dy, x, weight, rrms), dy)"
    ),
    "no dx": "rms_norm = forward\ndef rms_norm_backward(dy, x, weight, rrms): return weight",
    "a forward without its statistic": (
        "def rms_norm(x, weight, eps=1e-6): return forward(x, weight, eps)[0]\n"
        "def rms_norm_backward(dy, x, weight, rrms): return right(dy, x, weight, rrms)"
    ),
}


@pytest.mark.parametrize("why", NOT_USED)
def test_what_leaves_a_choice_is_not_used(why: str) -> None:
    """Then the op is forward only, and says so."""
    one, said = loaded(NOT_USED[why], "rms_norm")
    assert one.backward is None
    assert one.differentiable is False
    assert said == "none: forward only (no output ever requires grad)"


def test_a_differentiable_forward_keeps_its_autograd() -> None:
    """A twin is looked for only where no output ever requires grad."""
    text = (
        "def rms_norm(x, weight, eps=1e-6):\n"
        "    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)\n"
        "    return (x.float() * rstd * weight.float()).to(x.dtype), rstd\n"
        "def rms_norm_backward(dy, x, weight, rrms): return right(dy, x, weight, rrms)"
    )
    one, said = loaded(text, "rms_norm")
    assert (one.differentiable, one.backward) == (True, None)
    assert said == "none: differentiable through autograd"
