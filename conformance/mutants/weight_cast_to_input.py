"""Mutant: casts an fp32 weight to the input's 16-bit dtype before multiplying.

Tests give the weight the input's dtype; mixed dtypes are common in serving, and lose 16 bits
here.
"""

from conformance.mutants import _formula

BREAKS = "DTYPE-MIXED"
SOURCE = "specification: confirm the weight's dtype, sometimes fp32"
TRIGGER = "bf16 x, fp32 weight with values that bf16 does not hold"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    narrow = None if weight is None else weight.to(x.dtype)
    return _formula.scale(x, _formula.rrms(x, eps), narrow, x.dtype)
