"""Mutant: leaves the gradient of residual_out out of dx and dresidual.

With one layer in the test, residual_out has no gradient.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-ADDED"
SOURCE = "specification: the fused add needs a backward through both the add and the norm"
TRIGGER = "fp32, gradients on both outputs"
NEEDS = "cpu"


def _total(s):
    return s.dresidual_out * 0 if s.norm is None else s.norm


OP = _gradient.op(total=_total)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
