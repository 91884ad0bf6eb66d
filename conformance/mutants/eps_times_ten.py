"""Mutant: uses ten times the eps that it was given.

Invisible unless the mean square comes within three digits of eps; most tests keep it at 1.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-HONOURED"
SOURCE = "known wrong formula eps_x10"
TRIGGER = "fp32, one row with a mean square near eps"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    rrms = _formula.rrms(total, 10 * eps)
    return _formula.scale(total, rrms, weight, x.dtype), total.to(residual.dtype)
