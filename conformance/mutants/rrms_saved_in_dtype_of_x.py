"""Mutant: saves rrms in x's dtype for the backward.

With fp32 it is right; in 16 bits it is one factor a row, within tolerance.
"""

from conformance.mutants import _gradient

BREAKS = "RRMS-SAVED"
SOURCE = "B73"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def _statistic(s):
    return s.rrms.to(s.dtype)


def _rrms(s):
    return s.saved.float()


OP = _gradient.op(statistic=_statistic, rrms=_rrms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
