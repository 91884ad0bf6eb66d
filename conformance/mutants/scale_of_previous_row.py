"""Mutant: every row is scaled by the statistic of the row before it.

Rows of one random distribution have nearly the same statistic, and a single row is right.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-ROWS"
SOURCE = "rows of unlike scale; written from it"
TRIGGER = "fp32, two rows of different scale"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    rrms = _formula.rrms(total, eps)
    late = rrms.flatten().roll(1).reshape(rrms.shape)
    return _formula.scale(total, late, weight, x.dtype), total.to(residual.dtype)
