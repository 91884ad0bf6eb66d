"""Mutant: the mean square is fp32, but its reciprocal root is stored in the input's dtype and
read back.

In fp16 the relative error is at most 2**-11, the size of one rounding, but common to the row.
"""

from conformance.mutants import _formula

BREAKS = "ACCURACY-RRMS"
SOURCE = "B73, forward side"
TRIGGER = "fp16, H = 129"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    rrms = _formula.rrms(total, eps).to(x.dtype).float()
    return _formula.scale(total, rrms, weight, x.dtype), total.to(residual.dtype)
