"""Mutant: adds the gradients of both outputs without asking whether y has one.

In a test both outputs always have gradients; the last use of y may be dropped, or checkpointed.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-ALONE"
SOURCE = "B68; specification: a backward through both the add and the norm"
TRIGGER = "fp32, a gradient on residual_out alone"
NEEDS = "cpu"


def _total(s):
    return s.norm if s.dresidual_out is None else s.dresidual_out.add(s.norm)


OP = _gradient.op(total=_total)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
