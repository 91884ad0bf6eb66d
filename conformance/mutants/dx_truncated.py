"""Mutant: rounds dx toward zero when it is stored in 16 bits.

Each element is within one ulp; every layer shrinks the gradient by half an ulp.
"""

from conformance.mutants import _formula, _gradient

BREAKS = "DX-ACCURACY"
SOURCE = "B06, in the backward"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def _dx(s):
    return _formula.truncate(s.total, s.dtype).reshape(s.shape)


OP = _gradient.op(dx=_dx)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
