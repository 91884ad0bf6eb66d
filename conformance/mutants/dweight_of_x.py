"""Mutant: sums dy * x: the rrms is missing.

Rows of unit mean square, and randn gives those, have an x_hat that is x.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-XHAT"
SOURCE = "specification: dweight = sum over batch (dy * x_normed)"
TRIGGER = "fp32, a row of scale 4"
NEEDS = "cpu"


def _terms(s):
    return s.dy * s.h


OP = _gradient.op(terms=_terms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
