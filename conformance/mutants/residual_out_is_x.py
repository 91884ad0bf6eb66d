"""Mutant: returns x in place of x + residual.

With a residual of zeros, as in a model's first block, they are equal.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-WRITTEN"
SOURCE = "known wrong formula res_out_is_x"
TRIGGER = "fp32, any residual that is not zero"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, _ = _formula.fused_add_rms_norm(x, residual, weight, eps)
    return y, x.to(residual.dtype, copy=True)
