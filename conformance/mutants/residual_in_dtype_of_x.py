"""Mutant: writes the residual back in x's dtype, although the caller keeps it in fp32.

Tests give both the same dtype; an fp32 residual stream, kept for its accuracy, silently loses
it.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-DTYPE"
SOURCE = "rule of the suite: what may come back"
TRIGGER = "x bf16, residual fp32"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    return y, residual_out.to(x.dtype)
