"""Mutant: raises for an input with no rows.

Tests start at one row; an engine step without tokens ends in an exception.
"""

from conformance.mutants import _formula

BREAKS = "SIZE-ZERO-ROWS"
SOURCE = "B54"
TRIGGER = "fp32, x of (0, 8)"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if x.numel() == 0:
        raise RuntimeError("invalid configuration argument: grid is 0")
    return _formula.rms_norm(x, weight, eps)
