"""Mutant: returns one tensor for dx and dresidual, though the residual has another dtype.

Where both have one dtype, and in tests they have, it is right.
"""

from conformance.mutants import _explicit

BREAKS = "DRESIDUAL-FORM"
SOURCE = "public practice of one tensor for both"
TRIGGER = "bf16 x with an fp32 residual"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return _explicit.fused_add_rms_norm(x, residual, weight, eps)


def backward(dy, dresidual_out, x, residual_out, weight, rrms):
    dx, _, dweight = _explicit.fused_backward(dy, dresidual_out, x, residual_out, weight, rrms)
    return dx, dx.clone(), dweight


IMPLEMENTATION = _explicit.declared_fused("dresidual_in_dtype_of_x", fused_add_rms_norm, backward)
