"""Variant: an operator of torch.library with a schema, a meta function and a backward registered to it."""

import torch

from conformance.mutants import _formula, _gradient

CONVENTION = {"none": "one rounding"}
REFUSES = ()


@torch.library.custom_op("rmsnorm_conformance_variant::rms_norm", mutates_args=())
def _forward(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    y, _, step = _gradient.forward(x, None, weight, eps, 0.0)
    return y, step.rrms


@_forward.register_fake
def _meta(x, weight, eps):
    return torch.empty_like(x), x.new_empty((x.numel() // x.shape[-1], 1), dtype=torch.float32)


def _setup(ctx, inputs, output):
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output[1])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx, dy, _):
    x, weight, saved = ctx.saved_tensors
    wants_dx, wants_dweight, _ = ctx.needs_input_grad
    step = _gradient.Step(
        shape=x.shape, dtype=x.dtype, h=_gradient.rows(x.float()), own_weight=weight, saved=saved,
        weight=_gradient.with_offset(weight, 0.0), given=dy, needs=(wants_dx, False, wants_dweight),
    )  # fmt: skip
    dx, _, dweight = _gradient.backward(step)
    return dx, dweight, None


_forward.register_autograd(_backward, setup_context=_setup)


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _forward(x, weight, eps)[0]
