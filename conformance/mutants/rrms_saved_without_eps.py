"""Mutant: saves the reciprocal root of the bare mean square, not the scalar that the forward has
multiplied by.

The two differ where the mean square is near eps, and a row of zeros saves an infinity.
"""

import torch

from conformance.mutants import _formula, _gradient

BREAKS = "RRMS-SAVED"
SOURCE = "specification: the saved value must be rrms, the same scalar the forward multiplied by"
TRIGGER = "fp32, x of scale 1e-3, eps 1e-5"
NEEDS = "cpu"


def _statistic(s):
    return torch.rsqrt(_formula.mean_square(s.h))


OP = _gradient.op(statistic=_statistic)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
