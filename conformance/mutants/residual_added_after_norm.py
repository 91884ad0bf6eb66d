"""Mutant: normalises x and adds the residual to the result, the order of a post-norm block.

The residual written back is right, and shapes and magnitudes look plausible.
"""

import torch

from conformance.mutants import _formula

BREAKS = "RESIDUAL-ADDED"
SOURCE = "specification: the residual is added before squaring"
TRIGGER = "fp32, any residual that is not zero"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    y = _formula.scale(x, _formula.rrms(x, eps), weight, torch.float32) + residual.float()
    return y.to(x.dtype), (x.float() + residual.float()).to(residual.dtype)
