"""Variant: the exact sum normalised and rounded, then multiplied by the weight and rounded again."""

from conformance.mutants import _formula

CONVENTION = {"none": "two roundings", "residual": "two roundings, exact sum"}
REFUSES = ()


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    x_hat = _formula.scale(h, _formula.rrms(h, eps), None, x.dtype)
    return _formula.scale(x_hat, 1.0, weight, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    x_hat = _formula.scale(total, _formula.rrms(total, eps), None, x.dtype)
    return _formula.scale(x_hat, 1.0, weight, x.dtype), total.to(residual.dtype)
