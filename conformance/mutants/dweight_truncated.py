"""Mutant: rounds dweight toward zero when it is stored in 16 bits.

Each element is within one ulp; over the steps every update is a little too small.
"""

from conformance.mutants import _formula, _gradient

BREAKS = "DWEIGHT-ACCURACY"
SOURCE = "B06, in the backward"
TRIGGER = "bf16, any"
NEEDS = "cpu"


def _dweight(s):
    return _formula.truncate(s.sum, s.own_weight.dtype)


OP = _gradient.op(dweight=_dweight)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
