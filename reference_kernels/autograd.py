"""Lesson 14. The two ops as autograd functions: what is saved, what is asked, what is None.

The forward saves what the backward kernels read and nothing else: x (or residual_out, which is an output
anyway), weight, and rrms, the float32 number per row that the row was multiplied with. All of it goes
through `save_for_backward`, so that torch can see when somebody has overwritten it since, and so that
saved-tensor hooks (offloading, checkpointing) reach it.

The backward computes what `ctx.needs_input_grad` asks for: a frozen weight costs no partial sums, a frozen
x no store. A gradient that does not arrive stays None (`set_materialize_grads`): zeros would be as large as
the tensor, and would be read.

There is no second derivative. torch's `once_differentiable` says so only where dy itself requires grad, and
otherwise returns gradients that look constant; so the refusal here is a node of its own, `FirstDerivative`.
"""

from __future__ import annotations

from typing import Any

import torch

from .fused_add_rms_norm_backward import fused_add_rms_norm_backward
from .fused_add_rms_norm_forward import fused_add_rms_norm_forward
from .rms_norm_backward import rms_norm_backward
from .rms_norm_forward import rms_norm_forward


def wanted(*tensors: torch.Tensor | None) -> bool:
    """Say whether a graph has to be recorded: grad mode is on and one of the tensors requires grad."""
    # A plain loop: this stands before every launch.
    if torch.is_grad_enabled():
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                return True
    return False


class FirstDerivative(torch.autograd.Function):
    """Hands gradients on, and refuses to be differentiated itself."""

    @staticmethod
    def forward(ctx: Any, n_sources: int, *tensors: torch.Tensor | None) -> Any:
        """Return the gradients, which follow the n_sources tensors that they depend on."""
        return tuple(None if t is None else t.view_as(t) for t in tensors[n_sources:])

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor | None) -> Any:
        """Raise RuntimeError."""
        raise RuntimeError(
            "a gradient of rms_norm or fused_add_rms_norm was differentiated again, but both are"
            " differentiable once: for second derivatives use torch.nn.functional.rms_norm"
        )


def _once(sources: tuple[torch.Tensor | None, ...], gradients: tuple[torch.Tensor | None, ...]) -> Any:
    """Return the gradients; where they are to have a graph (create_graph=True), with a node that refuses."""
    if not torch.is_grad_enabled():
        return gradients
    return FirstDerivative.apply(len(sources), *sources, *gradients)


class RMSNorm(torch.autograd.Function):
    """y, rrms = RMSNorm.apply(x, weight, eps); rrms has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        """Run lesson 1 and save what lesson 7 reads."""
        y, rrms = rms_norm_forward(x, weight, eps, save_rrms=True)
        ctx.save_for_backward(x, weight, rrms)
        ctx.mark_non_differentiable(rrms)
        ctx.set_materialize_grads(False)
        return y, rrms

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor | None, _: None) -> Any:
        """Return the gradients of x, weight and eps."""
        if dy is None:
            return None, None, None
        x, weight, rrms = ctx.saved_tensors
        needs_dx, needs_dweight, _ = ctx.needs_input_grad
        found = rms_norm_backward(dy, x, weight, rrms, needs_dx=needs_dx, needs_dweight=needs_dweight)
        return *_once((dy, x, weight), found), None


class FusedAddRMSNorm(torch.autograd.Function):
    """y, residual_out, rrms = FusedAddRMSNorm.apply(x, residual, weight, eps); rrms has no gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
    ) -> Any:
        """Run lesson 2 and save what lesson 9 reads; neither x nor residual."""
        y, residual_out, rrms = fused_add_rms_norm_forward(x, residual, weight, eps, save_rrms=True)
        ctx.save_for_backward(residual_out, weight, rrms)
        ctx.x_dtype = x.dtype
        ctx.mark_non_differentiable(rrms)
        ctx.set_materialize_grads(False)
        return y, residual_out, rrms

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor | None, dresidual_out: torch.Tensor | None, _: None) -> Any:
        """Return the gradients of x, residual, weight and eps."""
        residual_out, weight, rrms = ctx.saved_tensors
        needs_dx, needs_dresidual, needs_dweight, _ = ctx.needs_input_grad
        found = fused_add_rms_norm_backward(
            dy, dresidual_out, residual_out, weight, rrms, x_dtype=ctx.x_dtype,
            needs_dx=needs_dx, needs_dresidual=needs_dresidual, needs_dweight=needs_dweight,
        )  # fmt: skip
        return *_once((dy, dresidual_out, residual_out, weight), found), None
