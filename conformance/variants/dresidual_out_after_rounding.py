"""Variant: rounds the norm's part of dx to x's dtype and then adds the gradient of residual_out."""

from conformance.mutants import _gradient

CONVENTION = {"residual": "one rounding, exact sum"}
REFUSES = ()


def _total(s):
    if s.norm is None or s.dresidual_out is None:
        return _gradient.total(s)
    return s.norm.to(s.dtype).float() + s.dresidual_out


OP = _gradient.op(total=_total)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
