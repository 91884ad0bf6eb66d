"""Variant: the statistic comes from the exact sum, the row to be scaled from the stored, rounded one."""

from conformance.mutants import _formula

CONVENTION = {"residual": "one rounding, mixed"}
REFUSES = ()


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    residual_out = total.to(residual.dtype)
    return _formula.scale(residual_out, _formula.rrms(total, eps), weight, x.dtype), residual_out
