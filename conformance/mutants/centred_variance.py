"""Mutant: scales by the variance about the mean, without subtracting the mean from x.

The same as the mean square wherever the mean is zero, as in nearly every test.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-NO-MEAN"
SOURCE = "known wrong formula centered_var"
TRIGGER = "fp32, one row with a mean of 3"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    centred = total - total.mean(-1, keepdim=True)
    rrms = _formula.rrms(centred, eps)
    return _formula.scale(total, rrms, weight, x.dtype), total.to(residual.dtype)
