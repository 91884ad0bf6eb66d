"""Mutant: takes an Inf of dy for 0 as it reads it.

The rest of the row and of dweight is what it would be without that element; a loss that overflowed looks
healthy, and no ordinary test holds an Inf.
"""

from conformance.mutants import _gradient

BREAKS = "SPECIAL-NONFINITE"
SOURCE = "rule of the suite: what is not finite stays visible; nan_becomes_zero, in the backward"
TRIGGER = "fp32, one Inf in dy"
NEEDS = "cpu"


def _upstream(s):
    dy = _gradient.upstream(s)
    return dy.masked_fill(dy.isinf(), 0.0)


OP = _gradient.op(upstream=_upstream)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
