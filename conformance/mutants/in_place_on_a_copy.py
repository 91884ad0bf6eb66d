"""Mutant: the in-place call works on a contiguous copy of strided arguments and never copies
back.

Contiguous tensors are overwritten as promised; a slice of a larger buffer silently keeps its old
contents.
"""

from conformance.mutants import _formula

BREAKS = "INPLACE-STORAGE"
SOURCE = "public tests miss the strided in-place path"
TRIGGER = "fp32, x a slice of wider rows"
NEEDS = "cpu"


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    x.contiguous().copy_(y)
    residual.contiguous().copy_(residual_out)
