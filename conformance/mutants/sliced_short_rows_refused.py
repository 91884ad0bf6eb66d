"""Mutant: its kernel for rows of up to 1024 columns asserts contiguity, the one for longer rows takes
row strides.

Contiguous rows of any width are right, and so is the one slice that was tested.
"""

from conformance.mutants import _formula

BREAKS = "REFUSE-ALIKE"
SOURCE = "B30: one of a family of kernels rejects a slice that the others accept"
TRIGGER = "fp32, two rows of 8 that are a slice of wider rows"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] <= 1024 and x.dim() == 2 and len(x) > 1 and x.stride(0) > x.shape[-1]:
        raise ValueError(f"x.stride(0)={x.stride(0)}, but should be {x.shape[-1]}")
    return _formula.rms_norm(x, weight, eps)
