"""Mutant: forgets the weight in dx.

With a weight of ones, which tests have, it is right.
"""

from conformance.mutants import _gradient

BREAKS = "DX-WEIGHT"
SOURCE = "B72"
TRIGGER = "fp32, a random weight"
NEEDS = "cpu"


def _weighted(s):
    return s.dy


OP = _gradient.op(weighted=_weighted)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
