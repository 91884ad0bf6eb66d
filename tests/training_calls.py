"""Right and wrong differentiable norms for the tests of training runs, and what their gradients should be."""

from __future__ import annotations

from typing import Any

import torch

from conformance.run import Observation, Step, gradient_bits
from conformance.seen import to_float64

EPS = 1e-5


def norm(x, weight, eps):
    x32 = x.float()
    y = x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)
    return (y * weight.float()).to(x.dtype)


def fused(x, residual, weight, eps):
    total = x.float() + residual.float()
    y = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype), total.to(residual.dtype)


def values(step: Step, role: str) -> torch.Tensor:
    """The gradient of an input, exactly."""
    bits = gradient_bits(step, role)
    assert bits is not None, step.record
    return to_float64(bits, step.record["gradients"][role]["dtype"], "cpu")


def expected(shown: Observation, index: int = 0) -> dict[str, torch.Tensor | None]:
    """The gradients of plain torch in float64, from the bits that were supplied."""
    asked, step = shown.run, shown.steps[index]
    given = {r: to_float64(b, asked.dtype_of(r), "cpu") for r, b in step.bits.items()}
    leaves = {r: given[r].requires_grad_(r in asked.gradients) for r in asked.dtypes}
    summed = leaves["x"] + leaves["residual"] if "residual" in leaves else leaves["x"]
    y = summed * torch.rsqrt(summed.square().mean(-1, keepdim=True) + EPS) * leaves["weight"]
    outputs = {"y": y, "residual_out": summed}
    reached = [name for name in asked.upstream if outputs[name].requires_grad]
    if not reached:
        return dict.fromkeys(asked.gradients)
    arriving = [given["dy" if name == "y" else "dresidual_out"] for name in reached]
    wanted = [leaves[r] for r in asked.gradients]
    found = torch.autograd.grad([outputs[n] for n in reached], wanted, arriving, allow_unused=True)
    return dict(zip(asked.gradients, found, strict=True))


def only(shown: Observation) -> Step:
    assert shown.status == "completed", shown.detail
    (step,) = shown.steps
    return step


def function_of(backward: Any) -> Any:
    """(x, weight, eps) with the right forward and `backward` (ctx, dy) -> (dx, dweight)."""

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, eps):
            rrms = torch.rsqrt(x.float().square().mean(-1) + eps)
            y = norm(x, weight, eps)
            ctx.save_for_backward(x, weight, rrms)
            ctx.y = y.detach()
            return y

        @staticmethod
        def backward(ctx, dy):
            return *backward(ctx, dy), None

    return Norm.apply


def right(ctx, dy):
    x, weight, rrms = ctx.saved_tensors
    x_hat = x.float() * rrms[:, None]
    a = dy.float() * weight.float()
    dx = rrms[:, None] * (a - x_hat * (a * x_hat).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy.float() * x_hat).sum(0).to(weight.dtype)


def writes_dy(ctx, dy):
    gradients = right(ctx, dy)
    dy.mul_(2)
    return gradients


def writes_grad(ctx, dy):
    weight = ctx.saved_tensors[1]
    weight.grad = right(ctx, dy)[1]
    return right(ctx, dy)


def writes_y(ctx, dy):
    ctx.y.zero_()
    return right(ctx, dy)


def raises(ctx, dy):
    raise ValueError("no backward here")


def leaves_without_exception(ctx, dy):
    raise SystemExit(3)


def changes_the_default_dtype(ctx, dy):
    gradients = right(ctx, dy)
    torch.set_default_dtype(torch.float64)
    return gradients
