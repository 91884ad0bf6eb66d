"""Mutant: multiplies by 1 + weight, the convention of another model family, without saying so.

A test with a weight of zeros, or against a reference with the same offset, agrees with it.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-WEIGHT-OFFSET"
SOURCE = "B16 inverted; known wrong formula w_plus1"
TRIGGER = "fp32, any row with a weight"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    shifted = None if weight is None else 1 + weight.float()
    return _formula.scale(x, _formula.rrms(x, eps), shifted, x.dtype)
