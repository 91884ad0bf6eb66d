"""Mutant: adds dweight to weight.grad by itself, beside returning it.

The first test after zero_grad compares weight.grad once and sees a factor of two at most.
"""

from conformance.mutants import _gradient

BREAKS = "GRADMODE-UNASKED"
SOURCE = "public practice of fused gradient accumulation"
TRIGGER = "fp32, any"
NEEDS = "cpu"


def _dweight(s):
    gradient = _gradient.dweight(s)
    before = s.own_weight.grad
    s.own_weight.grad = gradient if before is None else before + gradient
    return gradient


OP = _gradient.op(dweight=_dweight)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
