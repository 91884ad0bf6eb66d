"""Mutant: accepts out= and leaves it untouched; the result comes back in a new tensor.

Tests use the returned value; an engine that passes a preallocated buffer reads what was in it
before.
"""

from conformance.mutants import _formula

BREAKS = "OUTPUT-PARAMETER"
SOURCE = "rule of the suite: a supplied out= that is ignored"
TRIGGER = "fp32, any row, with out="
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6, out=None):
    return _formula.rms_norm(x, weight, eps)
