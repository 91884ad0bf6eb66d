"""Mutant: sums dweight over the whole tensor and expands the number over the columns.

Shape and dtype are right, and so is the sum of dweight, times H.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-AXES"
SOURCE = "specification: dweight reduced over the wrong axis, silently broadcast"
TRIGGER = "fp32, H = 2"
NEEDS = "cpu"


def _reduced(s):
    return s.terms.sum().expand(s.shape[-1]).contiguous()


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
