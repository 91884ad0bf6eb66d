"""Mutant: drops dimensions of length 1 from y, so that one row comes back as a vector.

Broadcasting makes a comparison with the right result pass; only one row, or one column, shows
it.
"""

from conformance.mutants import _formula

BREAKS = "OUTPUT-SHAPE"
SOURCE = "specification: y has x's shape; written from it"
TRIGGER = "fp32, x of (1, 8)"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    return _formula.rms_norm(x, weight, eps).squeeze()
