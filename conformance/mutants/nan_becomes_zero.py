"""Mutant: replaces NaN and infinity of the input by numbers before it computes.

No ordinary test holds a NaN; a diverging model looks healthy.
"""

from conformance.mutants import _formula

BREAKS = "SPECIAL-NONFINITE"
SOURCE = "rule of the suite: a NaN makes the row NaN"
TRIGGER = "fp32, one NaN in one row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.rms_norm(x.nan_to_num(0.0), weight, eps)
