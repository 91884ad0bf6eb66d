"""Variant: a decoder in eager operations: add and round, normalise and round, multiply by the weight."""

from conformance.mutants import _formula

CONVENTION = {"residual": "two roundings, rounded sum", "residual_in_place": "two roundings, rounded sum"}
REFUSES = ()


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    residual_out = (x.float() + residual.float()).to(residual.dtype)
    h = residual_out.float()
    x_hat = _formula.scale(h, _formula.rrms(h, eps), None, x.dtype)
    return _formula.scale(x_hat, 1.0, weight, x.dtype), residual_out


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    y, residual_out = fused_add_rms_norm(x, residual, weight, eps)
    x.copy_(y)
    residual.copy_(residual_out)
