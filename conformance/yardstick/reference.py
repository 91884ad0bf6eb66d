"""The reference of a rule: plain torch in the dtypes that the suite computes in, gradients by autograd."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from conformance.model import GRADIENT_OF, UPSTREAM_OF, Run
from conformance.yardstick.rules import Form


def reference(run: Run, tensors: Mapping[str, torch.Tensor], form: Form) -> dict[str, torch.Tensor]:
    """y, in fused modes residual_out, and in a training run dx, dresidual and dweight, as a suite has them.

    tensors: x, residual, weight, dy, dresidual_out by name, in the run's shapes and dtypes. Outputs have x's
    dtype, gradients that of their input. Raises ValueError for a run that leaves eps out.
    """
    if run.eps is None:
        raise ValueError(f"{run.id}: eps is left out, but should be a number")
    leaves = {role: tensors[role].detach().clone() for role in run.dtypes}
    for role in run.gradients:
        leaves[role].requires_grad_(True)
    with torch.set_grad_enabled(run.trains):
        found = _forward(run, leaves, run.eps, form)
    result = {name: value.detach() for name, value in found.items()}
    if run.trains:
        outputs = [found[name] for name in run.upstream]
        arriving = [tensors[UPSTREAM_OF[name]] for name in run.upstream]
        gradients = torch.autograd.grad(outputs, [leaves[r] for r in run.gradients], arriving)
        named = zip(run.gradients, gradients, strict=True)
        result.update({GRADIENT_OF[role]: gradient for role, gradient in named})
    return result


def _forward(run: Run, given: Mapping[str, torch.Tensor], eps: float, form: Form) -> dict[str, torch.Tensor]:
    x, weight = given["x"], given.get("weight")
    work = getattr(torch, form.work)
    found = {}
    row = x
    if run.mode != "none":
        residual = given["residual"]
        if form.sum_in:
            wide = getattr(torch, form.sum_in)
            row = x.to(wide) + residual.to(wide)
        else:
            row = x + residual
        found["residual_out"] = row.to(x.dtype)
    row = row.to(work)
    y = row * torch.rsqrt(row.pow(2).mean(-1, keepdim=True) + eps)
    if weight is not None and run.weight_offset:
        y = y * (weight.to(work) + run.weight_offset)
    elif weight is not None and form.rounds_x_hat:
        y = y.to(weight.dtype) * weight
    elif weight is not None:
        y = y * weight.to(work)
    return {"y": y.to(x.dtype), **found}
