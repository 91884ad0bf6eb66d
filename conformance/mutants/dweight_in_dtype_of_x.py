"""Mutant: returns dweight in x's dtype, from a backward function that autograd does not correct.

Where weight and x have one dtype, and in tests they have, it is right.
"""

from conformance.mutants import _explicit

BREAKS = "DWEIGHT-DTYPE"
SOURCE = "specification: confirm the weight's dtype"
TRIGGER = "bf16 x with an fp32 weight"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    return _explicit.rms_norm(x, weight, eps)


def rms_norm_backward(dy, x, weight, rrms):
    dx, dweight = _explicit.backward(dy, x, weight, rrms)
    return dx, None if dweight is None else dweight.to(x.dtype)


IMPLEMENTATION = _explicit.declared("dweight_in_dtype_of_x", rms_norm, rms_norm_backward)
