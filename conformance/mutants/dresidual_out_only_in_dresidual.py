"""Mutant: adds the gradient of residual_out to dresidual and returns dx without it.

The residual stream trains well; only what fed x learns from half of the loss.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-ADDED"
SOURCE = "rule of the suite: dx and dresidual are looked at both"
TRIGGER = "fp32, gradients on both outputs"
NEEDS = "cpu"


def _dx(s):
    part = s.dresidual_out * 0 if s.norm is None else s.norm
    return part.to(s.dtype).reshape(s.shape)


OP = _gradient.op(dx=_dx)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
