"""Mutant: writes the sum back, but normalises x alone.

The residual stream is exact, and with a small residual y is within tolerance.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-ADDED"
SOURCE = "known wrong formula res_ignored_in_norm"
TRIGGER = "fp32, any residual that is not zero"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    return _formula.rms_norm(x, weight, eps), residual_out
