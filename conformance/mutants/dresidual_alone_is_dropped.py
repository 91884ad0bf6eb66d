"""Mutant: returns zeros where y has no gradient, since its kernel starts from dy.

A loss over y always gives one.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-ALONE"
SOURCE = "rule of the suite: each output's gradient alone"
TRIGGER = "fp32, a gradient on residual_out alone"
NEEDS = "cpu"


def _total(s):
    return s.dresidual_out * 0 if s.norm is None else _gradient.total(s)


OP = _gradient.op(total=_total)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
