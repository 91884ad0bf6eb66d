"""Mutant: fp32 to bf16 adds half an ulp and cuts, so ties go away from zero instead of to even.

A product is almost never a tie, but the sum of two bf16 numbers often is; every error is one
ulp.
"""

import torch

from conformance.mutants import _formula

BREAKS = "RESIDUAL-EXACT"
SOURCE = "B66; residual output bit-exact"
TRIGGER = "bf16, x = 1, residual = 2**-8: a tie that goes to 1 and here to 1.0078125"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    if residual.dtype == torch.bfloat16:
        total = x.float() + residual.float()
        cut = ((total.view(torch.int32) + 0x8000) & -0x10000).view(torch.float32)
        residual_out = torch.where(total.isfinite(), cut, total).to(torch.bfloat16)
    return y, residual_out
