"""Mutant: computes rrms again in the backward and leaves eps out.

Rows far above eps do not depend on it.
"""

from conformance.mutants import _formula, _gradient

BREAKS = "DX-RRMS"
SOURCE = "specification: forward and backward drift apart"
TRIGGER = "fp32, x of scale 1e-3, eps 1e-5"
NEEDS = "cpu"


def _rrms(s):
    return _formula.mean_square(s.h).clamp(min=1e-30).rsqrt()


OP = _gradient.op(rrms=_rrms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
