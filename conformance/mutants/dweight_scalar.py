"""Mutant: sums dweight over the whole tensor and returns one number.

An optimizer that is handed the number broadcasts it; autograd refuses it.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-SHAPE"
SOURCE = "specification: dweight reduced over the wrong axis; B83"
TRIGGER = "fp32, H = 2"
NEEDS = "cpu"


def _reduced(s):
    return s.terms.sum()


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
