"""Mutant: adds eps to the root mean square instead of to the mean square.

Right to six digits wherever mean(x**2) is near 1, which is why randn inputs miss it.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-INSIDE"
SOURCE = "B09"
TRIGGER = "fp32, one row with a root mean square of 1e-3, eps 1e-5"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms = 1 / (_formula.mean_square(x).sqrt() + eps)
    return _formula.scale(x, rrms, weight, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    rrms = 1 / (_formula.mean_square(total).sqrt() + eps)
    return _formula.scale(total, rrms, weight, x.dtype), total.to(residual.dtype)
