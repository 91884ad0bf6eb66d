"""Mutant: switches requires_grad of the weight on whenever x requires a gradient.

A test lets everything require one.
"""

from conformance.mutants import _gradient

BREAKS = "GRADMODE-UNASKED"
SOURCE = "rule of the suite: a frozen weight stays frozen"
TRIGGER = "fp32, a weight without requires_grad"
NEEDS = "cpu"


OP = _gradient.op()


def rms_norm(x, weight, eps=1e-6):
    if x.requires_grad and weight is not None:
        weight.requires_grad_()
    return OP.rms_norm(x, weight, eps)
