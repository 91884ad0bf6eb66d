"""The two ops as operators of a torch.compile graph.

torch.compile traces Python down to operators that it knows. Checks of strides and addresses are nothing to
trace, and an interpreted launch is ordinary Python that must not be looked into; so inside a compiled
function each call is one operator, opaque, with a stand-in that says only what comes out of it
(`register_fake`). Its autograd formula calls a second operator, the backward. Eager calls do not come here:
an operator's dispatch costs as much as a launch.
"""

from __future__ import annotations

from typing import Any

import torch

from . import arguments
from .fused_add_rms_norm_backward import fused_add_rms_norm_backward
from .fused_add_rms_norm_forward import fused_add_rms_norm_forward, fused_add_rms_norm_forward_
from .rms_norm_backward import rms_norm_backward
from .rms_norm_forward import rms_norm_forward

Tensor = torch.Tensor


@torch.library.custom_op(
    "reference_kernels::rms_norm",
    mutates_args=(),
    schema="(Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor)",
)
def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Any:
    """Return (y, rrms)."""
    return rms_norm_forward(x, weight, eps, save_rrms=True)


@rms_norm.register_fake
def _(x: Tensor, weight: Tensor | None, eps: float) -> Any:
    return x.new_empty(x.shape), x.new_empty(arguments.count_rows(x), dtype=torch.float32)


@torch.library.custom_op(
    "reference_kernels::rms_norm_backward",
    mutates_args=(),
    schema="(Tensor dy, Tensor x, Tensor? weight, Tensor rrms, bool needs_dx, bool needs_dweight)"
    " -> Tensor[]",
)
def _rms_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, rrms: Tensor, needs_dx: bool, needs_dweight: bool
) -> list[Tensor]:
    """Return those of [dx, dweight] that are needed: an operator has no way to return None."""
    found = rms_norm_backward(dy, x, weight, rrms, needs_dx=needs_dx, needs_dweight=needs_dweight)
    return [gradient for gradient in found if gradient is not None]


@_rms_norm_backward.register_fake
def _(
    dy: Tensor, x: Tensor, weight: Tensor | None, rrms: Tensor, needs_dx: bool, needs_dweight: bool
) -> list[Tensor]:
    dx = [x.new_empty(x.shape)] if needs_dx else []
    return dx + ([torch.empty_like(weight)] if needs_dweight and weight is not None else [])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output[-1])
    ctx.mark_non_differentiable(output[-1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, dy: Tensor | None, _: None) -> Any:
    if dy is None:
        return None, None, None
    x, weight, rrms = ctx.saved_tensors
    needs = ctx.needs_input_grad[:2]
    found = iter(_rms_norm_backward(dy, x, weight, rrms, *needs))
    return *(next(found) if needed else None for needed in needs), None


rms_norm.register_autograd(_differentiate, setup_context=_save)


@torch.library.custom_op(
    "reference_kernels::fused_add_rms_norm",
    mutates_args=(),
    schema="(Tensor x, Tensor residual, Tensor? weight, float eps) -> (Tensor, Tensor, Tensor)",
)
def fused_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> Any:
    """Return (y, residual_out, rrms)."""
    return fused_add_rms_norm_forward(x, residual, weight, eps, save_rrms=True)


@fused_add_rms_norm.register_fake
def _(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> Any:
    rrms = x.new_empty(arguments.count_rows(x), dtype=torch.float32)
    return x.new_empty(x.shape), residual.new_empty(x.shape), rrms


@torch.library.custom_op(
    "reference_kernels::fused_add_rms_norm_backward",
    mutates_args=(),
    schema="(Tensor dy, Tensor? dresidual_out, Tensor residual_out, Tensor? weight, Tensor rrms,"
    " bool needs_dx, bool needs_dresidual, bool needs_dweight) -> Tensor[]",
)
def _fused_add_rms_norm_backward(
    dy: Tensor,
    dresidual_out: Tensor | None,
    residual_out: Tensor,
    weight: Tensor | None,
    rrms: Tensor,
    needs_dx: bool,
    needs_dresidual: bool,
    needs_dweight: bool,
) -> list[Tensor]:
    """Return those of [dx, dresidual, dweight] that are needed; of two that would be one tensor the first."""
    found = fused_add_rms_norm_backward(
        dy, dresidual_out, residual_out, weight, rrms,
        needs_dx=needs_dx, needs_dresidual=needs_dresidual, needs_dweight=needs_dweight,
    )  # fmt: skip
    return [gradient for gradient in found if gradient is not None]


@_fused_add_rms_norm_backward.register_fake
def _(
    dy: Tensor,
    dresidual_out: Tensor | None,
    residual_out: Tensor,
    weight: Tensor | None,
    rrms: Tensor,
    needs_dx: bool,
    needs_dresidual: bool,
    needs_dweight: bool,
) -> list[Tensor]:
    dx = [dy.new_empty(dy.shape)] if needs_dx else []
    dresidual = [residual_out.new_empty(residual_out.shape)] if needs_dresidual else []
    return dx + dresidual + ([torch.empty_like(weight)] if needs_dweight and weight is not None else [])


def _save_fused(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, _, weight, _ = inputs
    _, residual_out, rrms = output
    ctx.save_for_backward(residual_out, weight, rrms)
    ctx.x_dtype = x.dtype
    ctx.mark_non_differentiable(rrms)
    ctx.set_materialize_grads(False)


def _differentiate_fused(ctx: Any, dy: Tensor | None, dresidual_out: Tensor | None, _: None) -> Any:
    residual_out, weight, rrms = ctx.saved_tensors
    needs_dx, needs_dresidual, needs_dweight = ctx.needs_input_grad[:3]
    if dy is None:
        dx = dresidual_out.to(ctx.x_dtype) if needs_dx and dresidual_out is not None else None
        return dx, dresidual_out if needs_dresidual else None, None, None
    # One tensor cannot be returned twice by an operator; by this formula it can.
    shared = needs_dx and ctx.x_dtype == residual_out.dtype
    stores_dresidual = needs_dresidual and not shared
    found = iter(
        _fused_add_rms_norm_backward(
            dy, dresidual_out, residual_out, weight, rrms, needs_dx, stores_dresidual, needs_dweight
        )
    )
    dx = next(found) if needs_dx else None
    dresidual = next(found) if stores_dresidual else (dx if needs_dresidual else None)
    return dx, dresidual, next(found) if needs_dweight else None, None


fused_add_rms_norm.register_autograd(_differentiate_fused, setup_context=_save_fused)


@torch.library.custom_op(
    "reference_kernels::fused_add_rms_norm_",
    mutates_args=("x", "residual"),
    schema="(Tensor(a!) x, Tensor(b!) residual, Tensor? weight, float eps) -> ()",
)
def fused_add_rms_norm_(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> None:
    """Overwrite x with y and residual with residual_out."""
    fused_add_rms_norm_forward_(x, residual, weight, eps)
