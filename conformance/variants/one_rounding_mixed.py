"""Variant: the statistic comes from the exact sum, the row to be scaled from the stored, rounded one."""

from conformance.mutants import _formula, _gradient

CONVENTION = {"residual": "one rounding, mixed"}
REFUSES = ()


def _forward(x, residual, weight, eps, offset):
    _, residual_out, step = _gradient.forward(x, residual, weight, eps, offset)
    stored = _gradient.rows(residual_out)
    y = _formula.scale(stored, step.rrms, _gradient.with_offset(weight, offset), x.dtype)
    return y.reshape(x.shape), residual_out, step


OP = _gradient.op(forward=_forward)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
