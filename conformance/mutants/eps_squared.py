"""Mutant: adds the square of eps to the mean square, as if eps were a length.

Only rows whose mean square is not far above eps tell eps from its square.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-HONOURED"
SOURCE = "known wrong formula eps_squared"
TRIGGER = "fp32, one row with a mean square near eps"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.scale(x, _formula.rrms(x, eps * eps), weight, x.dtype)
