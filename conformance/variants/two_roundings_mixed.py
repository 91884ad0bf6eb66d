"""Variant: the statistic of the exact sum, the rounded sum scaled and rounded, then the weight."""

from conformance.mutants import _formula

CONVENTION = {"residual": "two roundings, mixed"}
REFUSES = ()


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    residual_out = total.to(residual.dtype)
    x_hat = _formula.scale(residual_out, _formula.rrms(total, eps), None, x.dtype)
    return _formula.scale(x_hat, 1.0, weight, x.dtype), residual_out
