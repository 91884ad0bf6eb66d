"""Variant: needs a weight, and an eps that is passed: nothing is a default."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ("weight:none", "eps:omitted")

OP = _gradient.op()


def _given(weight):
    if weight is None:
        raise TypeError("weight is None, but should be a tensor of shape (hidden_size,)")


def rms_norm(x, weight, eps):
    _given(weight)
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps):
    _given(weight)
    return OP.fused_add_rms_norm(x, residual, weight, eps)
