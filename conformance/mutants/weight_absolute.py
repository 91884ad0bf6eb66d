"""Mutant: multiplies by the absolute value of the weight.

Weights of tests are ones or uniform on (0, 1); trained weights have signs.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-WEIGHT"
SOURCE = "known wrong formula w_abs"
TRIGGER = "fp32, any row, a negative weight"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    size = None if weight is None else weight.abs()
    return _formula.scale(x, _formula.rrms(x, eps), size, x.dtype)
