"""Mutant: the residual written back is rounded toward zero.

Each element is within one ulp; after 72 calls a public report measured the residual stream 9 %
smaller.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-ROUNDING"
SOURCE = "B06"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, _ = _formula.fused_add_rms_norm(x, residual, weight, eps)
    return y, _formula.truncate(x.float() + residual.float(), residual.dtype)
