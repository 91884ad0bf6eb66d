"""Variant: computes in float64 and rounds once: more accurate than asked, which is no fault."""

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _y(h, weight, eps, dtype):
    y = h / (h.square().mean(-1, keepdim=True) + eps).sqrt()
    return (y if weight is None else y * weight.double()).float().to(dtype)


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _y(x.double(), weight, eps, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.double() + residual.double()
    return _y(total, weight, eps, x.dtype), total.float().to(residual.dtype)
