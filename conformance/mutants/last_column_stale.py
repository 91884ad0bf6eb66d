"""Mutant: never writes the last column of residual_out; it holds whatever the memory held.

One element in 4096, in the output that tests seldom read.
"""

import torch

from conformance.mutants import _formula

BREAKS = "MEM-UNWRITTEN"
SOURCE = "known wrong formula last_col_stale"
TRIGGER = "fp32, one row"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, right = _formula.fused_add_rms_norm(x, residual, weight, eps)
    residual_out = torch.empty(x.shape, dtype=residual.dtype, device=x.device)
    residual_out[..., :-1] = right[..., :-1]
    return y, residual_out
