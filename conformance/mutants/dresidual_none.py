"""Mutant: returns no gradient for residual: it was thought to be an input that nothing depends on.

Autograd takes None for zero, and x's gradient is there and right.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-PRESENT"
SOURCE = "specification: the residual is an input of the sum"
TRIGGER = "fp32, any"
NEEDS = "cpu"


def _returned(s, gradients):
    return gradients[0], None, gradients[2]


OP = _gradient.op(returned=_returned)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
