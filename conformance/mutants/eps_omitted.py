"""Mutant: takes eps and never uses it.

With unit variance the term is a millionth of the mean square; a zero row shows it as NaN.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-HONOURED"
SOURCE = "known wrong formula eps_zero"
TRIGGER = "fp32, one row with a mean square near eps"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.scale(x, _formula.mean_square(x).rsqrt(), weight, x.dtype)
