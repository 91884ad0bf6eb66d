"""Variant: the statistic of the exact sum, the rounded sum scaled and rounded, then the weight."""

from conformance.mutants import _formula, _gradient

CONVENTION = {"residual": "two roundings, mixed"}
REFUSES = ()


def _forward(x, residual, weight, eps, offset):
    _, residual_out, step = _gradient.forward(x, residual, weight, eps, offset)
    x_hat = _formula.scale(_gradient.rows(residual_out), step.rrms, None, x.dtype)
    y = _formula.scale(x_hat, 1.0, _gradient.with_offset(weight, offset), x.dtype)
    return y.reshape(x.shape), residual_out, step


def _weighted(s):
    return _gradient.weighted(s).to(s.dtype).float()


OP = _gradient.op(forward=_forward, weighted=_weighted)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
