"""Mutant: ignores the caller's eps and uses a built-in 1e-6.

Tests that pass 1e-6, and nearly all do, cannot see it.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-HONOURED"
SOURCE = "B10"
TRIGGER = "fp32, x of scale 1e-3, eps 1e-5"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.scale(x, _formula.rrms(x, 1e-6), weight, x.dtype)
