"""Variant: the fused add in operations that overwrite: residual += x, and x is filled from a scaled copy.

In 16 bits torch adds in fp32 and rounds once, so what is stored is the rounded sum, and that is normalised.
Mixed dtypes are cast on the way.
"""

import torch

from conformance.mutants import _formula

CONVENTION = {"residual_in_place": "one rounding, rounded sum"}
REFUSES = ()


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    residual.add_(x)
    scaled = residual.to(torch.float32, copy=True)
    scaled.mul_(_formula.rrms(scaled, eps))
    if weight is not None:
        scaled.mul_(weight.float())
    x.copy_(scaled)
