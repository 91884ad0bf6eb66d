"""Variant: casts the weight to fp32 outside of its autograd function, and autograd casts dweight back."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding"}
REFUSES = ()


OP = _gradient.op()


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, None if weight is None else weight.float(), eps)
