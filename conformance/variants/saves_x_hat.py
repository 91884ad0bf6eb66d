"""Variant: saves the normalised rows in fp32 beside rrms, and its backward reads them instead of x."""

import torch
from torch.autograd.function import once_differentiable

from conformance.mutants import _formula, _gradient

CONVENTION = {"none": "one rounding"}
REFUSES = ()


class Norm(torch.autograd.Function):
    """The right forward and backward; what it keeps is what differs."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        y, _, step = _gradient.forward(x, None, weight, eps, 0.0)
        ctx.save_for_backward(step.h * step.rrms, step.rrms, weight)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x_hat, rrms, weight = ctx.saved_tensors
        upstream = _gradient.rows(dy.float())
        a = upstream if weight is None else upstream * weight.float()
        c = (a * x_hat).mean(-1, keepdim=True)
        wants_dx, wants_dweight, _ = ctx.needs_input_grad
        dx = (rrms * (a - x_hat * c)).to(ctx.dtype).reshape(ctx.shape) if wants_dx else None
        return dx, (upstream * x_hat).sum(0).to(weight.dtype) if wants_dweight else None, None


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return Norm.apply(x, weight, eps)
