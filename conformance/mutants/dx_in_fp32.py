"""Mutant: returns dx in fp32, as it was computed, from a backward function that autograd does not correct.

A comparison that casts both sides to fp32 agrees.
"""

from conformance.mutants import _explicit

BREAKS = "DX-FORM"
SOURCE = "specification: y in the output dtype, and its gradient alike"
TRIGGER = "bf16, any"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    return _explicit.rms_norm(x, weight, eps)


def rms_norm_backward(dy, x, weight, rrms):
    dx, dweight = _explicit.backward(dy, x, weight, rrms)
    return dx.float(), dweight


IMPLEMENTATION = _explicit.declared("dx_in_fp32", rms_norm, rms_norm_backward)
