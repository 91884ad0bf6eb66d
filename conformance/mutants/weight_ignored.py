"""Mutant: never multiplies by the weight.

Tests whose weight is ones, the initial value of the layer, cannot see it.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-WEIGHT"
SOURCE = "known wrong formula w_ignored"
TRIGGER = "fp32, any row, a weight that is not all ones"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.scale(x, _formula.rrms(x, eps), None, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    return _formula.fused_add_rms_norm(x, residual, None, eps)
