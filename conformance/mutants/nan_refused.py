"""Mutant: raises when the input holds a NaN or an infinity.

A value is never a reason to refuse: looking for it costs a pass over the data and a
synchronisation.
"""

from conformance.mutants import _formula

BREAKS = "SPECIAL-NONFINITE"
SOURCE = "rule of the suite: never a size, a value or a repeat"
TRIGGER = "fp32, one NaN in one row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if not x.isfinite().all():
        raise ValueError("x is not finite")
    return _formula.rms_norm(x, weight, eps)
