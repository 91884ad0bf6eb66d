"""Mutant: returns x itself where it is all zeros, since its norm is zero too.

Values are right; a caller who writes into y writes into x.
"""

from conformance.mutants import _formula

BREAKS = "OUTPUT-ALIAS"
SOURCE = "known exploit: output aliases input"
TRIGGER = "fp32, x all zeros"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    if x.numel() and not x.any():
        return x
    return _formula.rms_norm(x, weight, eps)
