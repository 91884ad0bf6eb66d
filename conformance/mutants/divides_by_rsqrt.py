"""Mutant: divides the row by the reciprocal root instead of multiplying by it.

Where the root mean square is 1, as in randn, dividing and multiplying are nearly the same.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-ROOT"
SOURCE = "B12"
TRIGGER = "fp32, any row of scale 3"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.scale(x, 1 / _formula.rrms(x, eps), weight, x.dtype)
