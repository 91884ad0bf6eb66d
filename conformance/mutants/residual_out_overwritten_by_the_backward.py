"""Mutant: leaves dx in the memory of residual_out, which it has read to the end.

The gradients are right; the next block saved residual_out and reads a gradient.
"""

from conformance.mutants import _gradient

BREAKS = "GRADMODE-OUTPUTS-UNTOUCHED"
SOURCE = "rule of the suite: saved tensors are read, not written"
TRIGGER = "fp32, a gradient on y"
NEEDS = "cpu"


def _dx(s):
    gradient = _gradient.dx(s)
    if s.residual_dtype == s.dtype:
        s.stored.data.copy_(gradient)
    return gradient


OP = _gradient.op(dx=_dx)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
