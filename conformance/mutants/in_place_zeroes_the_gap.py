"""Mutant: the in-place call also zeroes the elements between the end of a row and the next row.

Nothing lies there in a contiguous tensor; in a slice of a fused projection, other heads do.
"""

import torch

from conformance.mutants import _formula

BREAKS = "MEM-WRITE"
SOURCE = "B24; B45: overrun of a row"
TRIGGER = "fp32, two rows that are a slice of wider rows"
NEEDS = "cpu"


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    hidden_size = x.shape[-1]
    if x.dim() == 2 and x.stride(1) == 1 and hidden_size < x.stride(0) < 2 * hidden_size + 256:
        shape = (x.shape[0] - 1, x.stride(0))
        torch.as_strided(x, shape, x.stride(), x.storage_offset())[:, hidden_size:] = 0
    x.copy_(y)
    residual.copy_(residual_out)
