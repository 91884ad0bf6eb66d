"""Mutant: every output is 1 % too large.

Tolerances of 1e-2 relative, usual in bf16, are made for less and admit it.
"""

from conformance.mutants import _formula

BREAKS = "ACCURACY-GAIN"
SOURCE = "known wrong formula scale_1pct"
TRIGGER = "fp32, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.scale(x, 1.01 * _formula.rrms(x, eps), weight, x.dtype)
