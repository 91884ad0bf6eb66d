"""Variant: saves rms, and its backward divides where others multiply by rrms."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()
WARNS = ("RRMS-RECIPROCAL",)


def _statistic(s):
    return 1 / s.rrms


def _rrms(s):
    return 1 / s.saved


OP = _gradient.op(statistic=_statistic, rrms=_rrms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
