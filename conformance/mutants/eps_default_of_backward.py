"""Mutant: computes rrms again in the backward, by the eps of the call, or 1e-3 where that was left out.

Right wherever eps is passed, as every test does, and where the mean square is far above 1e-3.
"""

from conformance.mutants import _formula, _gradient

BREAKS = "DX-RRMS"
SOURCE = "B10; specification: typically 1e-5 or 1e-6"
TRIGGER = "fp32, x of scale 1e-3, eps omitted"
NEEDS = "cpu"


def _rrms(s):
    return _formula.rrms(s.h, 1e-3)


GIVEN = _gradient.op()
LEFT_OUT = _gradient.op(rrms=_rrms)


def rms_norm(x, weight, eps=None):
    return LEFT_OUT.rms_norm(x, weight, 1e-6) if eps is None else GIVEN.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=None):
    if eps is None:
        return LEFT_OUT.fused_add_rms_norm(x, residual, weight, 1e-6)
    return GIVEN.fused_add_rms_norm(x, residual, weight, eps)
