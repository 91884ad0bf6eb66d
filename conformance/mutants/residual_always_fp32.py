"""Mutant: returns the fp32 sum as residual_out, whatever dtype residual has.

Its values are better than asked; allclose promotes and passes, and the next block runs in fp32.
"""

import torch

from conformance.mutants import _formula

BREAKS = "RESIDUAL-DTYPE"
SOURCE = "B21, for the residual"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, _ = _formula.fused_add_rms_norm(x, residual, weight, eps)
    return y, (x.float() + residual.float()).to(torch.float32)
