"""Mutant: sums dy * weight * x_hat, the products that it has at hand from dx.

With a weight of ones, which tests have, it is right.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-XHAT"
SOURCE = "B82; a factor that dx has and dweight has not"
TRIGGER = "fp32, a random weight"
NEEDS = "cpu"


def _terms(s):
    return _gradient.weighted(s) * s.x_hat


OP = _gradient.op(terms=_terms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
