"""Mutant: accepts a weight longer than the row and uses its beginning.

No test gives a weight of the wrong length; a caller who mixes up two layers gets numbers, not an
error.
"""

from conformance.mutants import _formula

BREAKS = "REFUSE-SHAPE"
SOURCE = "specification: the weight has shape (H,)"
TRIGGER = "fp32, H = 8, a weight of 9"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    if weight is not None:
        weight = weight[: x.shape[-1]]
    return _formula.fused_add_rms_norm(x, residual, weight, eps)
