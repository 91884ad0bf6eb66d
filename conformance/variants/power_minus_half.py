"""Variant: the reciprocal root is taken as a power of -0.5, and the mean as a product with 1 / H."""

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _rrms(h, eps):
    return (h.square().sum(-1, keepdim=True) * (1 / h.shape[-1]) + eps).pow(-0.5)


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    return _formula.scale(h, _rrms(h, eps), weight, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    return _formula.scale(total, _rrms(total, eps), weight, x.dtype), total.to(residual.dtype)
