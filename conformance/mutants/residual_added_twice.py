"""Mutant: adds the residual twice.

With a residual of zeros, or one much smaller than x, it is right within tolerance.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-ADDED"
SOURCE = "known wrong formula res_double_add"
TRIGGER = "fp32, any residual that is not zero"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float() + residual.float()
    return _formula.scale(total, _formula.rrms(total, eps), weight, x.dtype), total.to(residual.dtype)
