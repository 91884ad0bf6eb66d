"""Variant: the sum is rounded to the residual's dtype first; what is stored is what is normalised."""

from conformance.mutants import _formula

CONVENTION = {"residual": "one rounding, rounded sum"}
REFUSES = ()


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    residual_out = (x.float() + residual.float()).to(residual.dtype)
    h = residual_out.float()
    return _formula.scale(h, _formula.rrms(h, eps), weight, x.dtype), residual_out
