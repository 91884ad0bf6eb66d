"""Mutant: multiplies dy by the stored weight, without the offset that the forward added.

With the default offset of 0 it is right; with an offset of 1 and a fresh weight of zeros dx is 0.
"""

from conformance.mutants import _gradient

BREAKS = "DX-WEIGHT"
SOURCE = "B16, B72"
TRIGGER = "fp32, weight_offset 1"
NEEDS = "cpu"


def _weighted(s):
    return s.dy if s.own_weight is None else s.dy * s.own_weight.float()


OP = _gradient.op(weighted=_weighted)


def rms_norm(x, weight, eps=1e-6, weight_offset=0.0):
    return OP.rms_norm(x, weight, eps, weight_offset)
