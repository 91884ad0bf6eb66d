"""Mutant: returns no gradient for the weight.

Autograd takes None for zero: the weight stays as it is, and the loss still falls.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-PRESENT"
SOURCE = "B70"
TRIGGER = "fp32, any"
NEEDS = "cpu"


def _returned(s, gradients):
    return *gradients[:2], None


OP = _gradient.op(returned=_returned)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
