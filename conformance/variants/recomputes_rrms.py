"""Variant: saves no statistic; its backward computes rrms again, by the forward's formula."""

from conformance.mutants import _formula, _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()
WARNS = ("RRMS-READ",)


def _nothing(s):
    return None


def _rrms(s):
    return _formula.rrms(s.h, s.eps)


OP = _gradient.op(statistic=_nothing, rrms=_rrms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
