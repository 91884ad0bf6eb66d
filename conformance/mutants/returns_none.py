"""Mutant: a functional call that returns None and writes nothing.

Nothing to compare is, for a careless harness, nothing that differs.
"""

from conformance.mutants import _formula

BREAKS = "OUTPUT-TYPE"
SOURCE = "rule of the suite: nothing passes on zero elements"
TRIGGER = "any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
