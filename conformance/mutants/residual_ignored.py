"""Mutant: ignores the residual altogether: y is the norm of x, and x is what is written back.

The two outputs agree with each other, and with the truth where the residual is zero.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-ADDED"
SOURCE = "known wrong formula res_ignored"
TRIGGER = "fp32, any residual that is not zero"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    return _formula.rms_norm(x, weight, eps), x.to(residual.dtype, copy=True)
