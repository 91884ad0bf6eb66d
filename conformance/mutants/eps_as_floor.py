"""Mutant: uses eps as a lower bound of the mean square, max(mean(x**2), eps), instead of adding it.

Equal to the formula far above and far below eps; at the crossing it is off by a factor of 1.4.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-INSIDE"
SOURCE = "specification: eps is added inside the sqrt; written from the formula"
TRIGGER = "fp32, one row with a mean square equal to eps"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms = _formula.mean_square(x).clamp(min=eps).rsqrt()
    return _formula.scale(x, rrms, weight, x.dtype)
