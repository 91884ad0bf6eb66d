"""Mutant: reads the weight from its end to its start.

Constant weights, and symmetric ones such as a window, give the right result.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-WEIGHT-INDEX"
SOURCE = "specification: correct access is weight_ptr + col_offsets"
TRIGGER = "fp32, one row, unequal weights"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    backwards = None if weight is None else weight.flip(0)
    return _formula.fused_add_rms_norm(x, residual, backwards, eps)
