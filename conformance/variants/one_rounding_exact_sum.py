"""Variant: everything in fp32, the exact sum normalised, one rounding at the end. torch's own convention."""

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def rms_norm(x, weight, eps=1e-6):
    return _formula.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return _formula.fused_add_rms_norm(x, residual, weight, eps)
