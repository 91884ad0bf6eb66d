"""Mutant: adds the gradient of residual_out to dx and returns dresidual without it.

A test that looks at dx, or that shares x and residual, agrees.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-ADDED"
SOURCE = "rule of the suite: dx and dresidual are looked at both"
TRIGGER = "fp32, gradients on both outputs"
NEEDS = "cpu"


def _dresidual(s):
    part = s.dresidual_out * 0 if s.norm is None else s.norm
    return part.to(s.residual_dtype).reshape(s.shape)


OP = _gradient.op(dresidual=_dresidual)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
