"""Mutant: the residual written back is y, the normalised sum.

y is right, and a test of y alone is green.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-WRITTEN"
SOURCE = "rule of the suite: written normalised"
TRIGGER = "fp32, any row of scale 3"
NEEDS = "cpu"


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    y, _ = _formula.fused_add_rms_norm(x, residual, weight, eps)
    x.copy_(y)
    residual.copy_(y)
