"""Mutant: sums dy instead of dy * x_hat, which is the bias gradient of a layer norm.

It has the right shape and size.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-XHAT"
SOURCE = "specification: dweight = sum over batch (dy * x_normed)"
TRIGGER = "fp32, any"
NEEDS = "cpu"


def _terms(s):
    return s.dy


OP = _gradient.op(terms=_terms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
