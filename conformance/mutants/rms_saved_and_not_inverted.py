"""Mutant: saves rms and multiplies by it in the backward, where it should divide.

Rows of unit mean square have an rms that is its own reciprocal.
"""

from conformance.mutants import _gradient

BREAKS = "DX-RRMS"
SOURCE = "specification: saving rms instead of rrms"
TRIGGER = "fp32, a row of scale 4"
NEEDS = "cpu"


def _statistic(s):
    return 1 / s.rrms


OP = _gradient.op(statistic=_statistic)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
