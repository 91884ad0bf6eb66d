"""Mutant: returns the sum over the row instead of the row, a scalar for each.

Broadcasts against anything, so a sloppy comparison does not object to its shape.
"""

from conformance.mutants import _formula

BREAKS = "OUTPUT-SHAPE"
SOURCE = "specification: silently broadcastable, undetected by shape checks"
TRIGGER = "fp32, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    return _formula.rms_norm(x, weight, eps).sum(-1, keepdim=True)
