"""Variant: x and the residual are added in float64, and their sum is rounded to fp32 and then stored.

float64 holds every sum of two fp32 numbers well enough that the second rounding changes nothing.
"""

from conformance.mutants import _formula, _gradient

CONVENTION = {"residual": "one rounding, exact sum", "residual_in_place": "one rounding, exact sum"}
REFUSES = ()


def _forward(x, residual, weight, eps, offset):
    total = _gradient.rows((x.double() + residual.double()).float())
    step = _gradient.Step(shape=x.shape, dtype=x.dtype, eps=eps, h=total, rrms=_formula.rrms(total, eps))
    y = _formula.scale(total, step.rrms, _gradient.with_offset(weight, offset), x.dtype)
    return y.reshape(x.shape), total.to(residual.dtype).reshape(x.shape), step


OP = _gradient.op(forward=_forward)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    y, residual_out, _ = _forward(x, residual, weight, eps, 0.0)
    x.copy_(y)
    residual.copy_(residual_out)
