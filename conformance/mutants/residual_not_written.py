"""Mutant: normalises the sum and hands the old residual on to the next block.

A test that looks at y alone is green; the sum is lost for the rest of the model.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-WRITTEN"
SOURCE = "B60"
TRIGGER = "fp32, any x that is not zero"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, _ = _formula.fused_add_rms_norm(x, residual, weight, eps)
    return y, residual.clone()
