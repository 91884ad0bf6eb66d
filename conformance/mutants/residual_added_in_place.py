"""Mutant: the functional call returns both outputs and also adds x into the caller's residual.

Outputs are right; a second use of the residual, by a checkpoint or another branch, is not.
"""

from conformance.mutants import _formula

BREAKS = "INPUTS-UNCHANGED"
SOURCE = "rule of the suite: undeclared overwriting"
TRIGGER = "fp32, any x that is not zero"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    residual.copy_(residual_out)
    return y, residual_out
