"""The right forward and backward as two plain functions, for vendors without autograd. Not a mutant.

The forward returns rrms as well, and the caller hands it to the backward:

    y, rrms = rms_norm(x, weight, eps)
    dx, dweight = backward(dy, x, weight, rrms)
    y, residual_out, rrms = fused_add_rms_norm(x, residual, weight, eps)
    dx, dresidual, dweight = fused_backward(dy, dresidual_out, x, residual_out, weight, rrms)

No output requires a gradient. `declared` makes the Implementation that says how they belong together.
"""

from __future__ import annotations

import torch

from conformance.model import Backward, Call, Implementation, Parameter
from conformance.mutants import _formula, _gradient

_PLAIN = ("x", "weight")
_FUSED = ("x", "residual", "weight")


@torch.no_grad()
def rms_norm(x, weight, eps):
    """Returns y and rrms, fp32 of shape (n_rows,)."""
    _formula.check(x, weight, eps)
    y, _, step = _gradient.forward(x, None, weight, eps, 0.0)
    return y, step.rrms.reshape(-1)


@torch.no_grad()
def fused_add_rms_norm(x, residual, weight, eps):
    """Returns y, residual_out and rrms, fp32 of shape (n_rows,)."""
    _formula.check(x, weight, eps, residual)
    y, residual_out, step = _gradient.forward(x, residual, weight, eps, 0.0)
    return y, residual_out, step.rrms.reshape(-1)


def backward(dy, x, weight, rrms):
    """Returns dx in x's shape and dtype, and dweight in weight's, or None where there is no weight."""
    step = _step(dy, None, x, x, weight, rrms)
    gradient, _, gradient_weight = _gradient.backward(step)
    return gradient, gradient_weight


def fused_backward(dy, dresidual_out, x, residual_out, weight, rrms):
    """Returns dx and dresidual, each in its own dtype, and dweight; residual_out is the sum as stored."""
    return _gradient.backward(_step(dy, dresidual_out, x, residual_out, weight, rrms))


def _step(dy, dresidual_out, x, h, weight, rrms):
    return _gradient.Step(
        shape=x.shape, dtype=x.dtype, residual_dtype=h.dtype, h=_gradient.rows(h.float()), own_weight=weight,
        weight=_gradient.with_offset(weight, 0.0), saved=rrms.reshape(-1, 1), given=dy,
        given_residual_out=dresidual_out, needs=(True, dresidual_out is not None, True),
    )  # fmt: skip


def declared(name, forward, function):
    """The plain norm: `forward` as rms_norm here, `function` as backward."""
    call = Call(
        forward, _parameters(_PLAIN), returns=("y", "rrms"), differentiable=True,
        backward=Backward(function, _roles("dy", "x", "weight", "rrms"), returns=("dx", "dweight")),
    )  # fmt: skip
    return Implementation(name=name, calls={"none": call})


def declared_fused(name, forward, function):
    """The fused add: `forward` as fused_add_rms_norm here, `function` as fused_backward."""
    roles = _roles("dy", "dresidual_out", "x", "residual_out", "weight", "rrms")
    call = Call(
        forward, _parameters(_FUSED), returns=("y", "residual_out", "rrms"), differentiable=True,
        backward=Backward(function, roles, returns=("dx", "dresidual", "dweight")),
    )  # fmt: skip
    return Implementation(name=name, calls={"residual": call})


def _parameters(tensors):
    shown = tuple(Parameter(t, t, nullable=t == "weight") for t in tensors)
    return (*shown, Parameter("eps", "eps", required=False, value=1e-6))


def _roles(*names):
    return tuple(Parameter(name, name, nullable=name == "weight") for name in names)
