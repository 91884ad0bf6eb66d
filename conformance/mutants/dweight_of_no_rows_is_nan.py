"""Mutant: returns the mean over the rows times their number: NaN for an empty batch.

A test with rows is right; an expert without tokens makes its weight NaN.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ZERO-ROWS"
SOURCE = "specification: an empty sum is zero"
TRIGGER = "fp32, 0 rows"
NEEDS = "cpu"


def _reduced(s):
    return s.terms.mean(0) * len(s.terms)


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
