"""Mutant: computes rrms again in the backward, with an eps of 1e-6 that is built in.

Rows far above eps do not depend on it, and many models have that eps.
"""

from conformance.mutants import _formula, _gradient

BREAKS = "DX-RRMS"
SOURCE = "B10; specification: backward must read the saved rrms"
TRIGGER = "fp32, x of scale 1e-3, eps 1e-5"
NEEDS = "cpu"


def _rrms(s):
    return _formula.rrms(s.h, 1e-6)


OP = _gradient.op(rrms=_rrms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
