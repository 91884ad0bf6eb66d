"""Mutant: overwrites x with y and returns x.

The returned values are right; the caller who still needs x has lost it.
"""

from conformance.mutants import _formula

BREAKS = "INPUTS-UNCHANGED"
SOURCE = "known exploit: output aliases input"
TRIGGER = "fp32, any row of scale 3"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    return x.copy_(_formula.rms_norm(x, weight, eps))
