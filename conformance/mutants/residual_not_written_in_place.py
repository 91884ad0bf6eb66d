"""Mutant: the in-place call overwrites x with y and leaves the residual as it was.

A test that looks at x alone is green.
"""

from conformance.mutants import _formula

BREAKS = "INPLACE-STORAGE"
SOURCE = "B60"
TRIGGER = "fp32, any x that is not zero"
NEEDS = "cpu"


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    y, _ = _formula.fused_add_rms_norm(x, residual, weight, eps)
    x.copy_(y)
