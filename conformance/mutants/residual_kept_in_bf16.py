"""Mutant: the residual stream passes through bf16 on its way out, whatever dtype it has.

bf16 models are exact; in fp16 three bits are lost, which a tolerance of 1e-2 admits.
"""

import torch

from conformance.mutants import _formula

BREAKS = "RESIDUAL-EXACT"
SOURCE = "rule of the suite: written in lower precision"
TRIGGER = "fp16, any row"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, _ = _formula.fused_add_rms_norm(x, residual, weight, eps)
    total = x.float() + residual.float()
    return y, total.to(torch.bfloat16).to(residual.dtype)
