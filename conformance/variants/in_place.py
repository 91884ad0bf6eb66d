"""Variant: the fused add in place, as inference engines call it: x becomes y, residual becomes the sum."""

from conformance.mutants import _formula

CONVENTION = {"residual_in_place": "one rounding, exact sum"}
REFUSES = ()


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    x.copy_(y)
    residual.copy_(residual_out)
