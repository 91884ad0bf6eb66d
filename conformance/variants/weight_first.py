"""Variant: multiplies the weight by the reciprocal root first, x * (rrms * weight), in fp32."""

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _y(h, weight, eps, dtype):
    factor = _formula.rrms(h, eps)
    return (h * (factor if weight is None else factor * weight.float())).to(dtype)


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _y(x.float(), weight, eps, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    return _y(total, weight, eps, x.dtype), total.to(residual.dtype)
