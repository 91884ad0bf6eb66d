"""Variant: dweight is a matrix product, a row of ones times the terms, in whatever order that adds."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _reduced(s):
    ones = s.terms.new_ones(1, len(s.terms))
    return (ones @ s.terms)[0]


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
