"""Mutant: returns dweight as (1, H), a row of its buffer of partial sums.

It broadcasts to (H,) wherever it is used.
"""

from conformance.mutants import _explicit

BREAKS = "DWEIGHT-SHAPE"
SOURCE = "B83; specification: leaving a (H,) gradient"
TRIGGER = "fp32, any"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    return _explicit.rms_norm(x, weight, eps)


def rms_norm_backward(dy, x, weight, rrms):
    dx, dweight = _explicit.backward(dy, x, weight, rrms)
    return dx, None if dweight is None else dweight[None]


IMPLEMENTATION = _explicit.declared("dweight_of_shape_one_by_h", rms_norm, rms_norm_backward)
