"""Variant: dx as the chain rule spells it, rrms * a - h * (rrms**3 * sum(a * h) / H)."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _projection(s):
    return (s.a * s.h).sum(-1, keepdim=True)


def _norm(s):
    return s.rrms * s.a - s.h * (s.rrms * s.rrms * s.rrms * s.c / s.h.shape[-1])


OP = _gradient.op(projection=_projection, norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
