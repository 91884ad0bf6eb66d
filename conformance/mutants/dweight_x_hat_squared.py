"""Mutant: sums dy * x_hat * x_hat.

A constant x_hat of 1 hides it.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-XHAT"
SOURCE = "known wrong formula: an extra factor of x_hat"
TRIGGER = "fp32, any"
NEEDS = "cpu"


def _terms(s):
    return s.dy * s.x_hat * s.x_hat


OP = _gradient.op(terms=_terms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
