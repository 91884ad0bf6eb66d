"""Variant: dx in the other form, (dy * w - x * rrms**2 * mean(dy * w * x)) * rrms."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding"}
REFUSES = ()


def _projection(s):
    return (s.a * s.h).mean(-1, keepdim=True)


def _norm(s):
    return (s.a - s.h * s.rrms * (s.rrms * s.c)) * s.rrms


OP = _gradient.op(projection=_projection, norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
