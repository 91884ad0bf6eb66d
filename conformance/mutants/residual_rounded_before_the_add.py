"""Mutant: rounds an fp32 residual to the 16 bits of x before it adds the two.

Where both have one dtype nothing is lost; a residual stream that is kept in fp32 loses, in every layer,
what it is kept for.

Labelled RESIDUAL-EXACT before its first scored run; DTYPE-MIXED since 2026-11-30: it shows only where the
two dtypes differ, and both findings, of y and of residual_out, speak of that mix, which is what to repair.
"""

from conformance.mutants import _formula

BREAKS = "DTYPE-MIXED"
SOURCE = "specification: the residual add must happen in fp32 after both inputs are cast"
TRIGGER = "x bf16, residual fp32"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual.to(x.dtype), weight, eps)
    if residual.dtype == x.dtype:
        return y, residual_out
    return y, (x.float() + residual.to(x.dtype).float()).to(residual.dtype)
