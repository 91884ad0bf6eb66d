"""Mutant: a weight of exactly 0 counts as not set and is replaced by 1.

Random weights are never exactly zero; pruned channels are.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-WEIGHT"
SOURCE = "rule of the suite: zeros of the weight; written from the formula"
TRIGGER = "fp32, any row, a weight with one zero"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    filled = None if weight is None else weight.masked_fill(weight == 0, 1.0)
    return _formula.scale(x, _formula.rrms(x, eps), filled, x.dtype)
