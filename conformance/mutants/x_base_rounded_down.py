"""Mutant: vector loads of x clear the low address bits, so a misaligned row is read a few
elements early.

Fresh tensors are aligned, and widths of models keep every row so.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ALIGN-X"
SOURCE = "B32"
TRIGGER = "fp32, buf[1:].view(2, 8)"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    early = min(x.data_ptr() % 16 // x.element_size(), x.storage_offset())
    read = torch.as_strided(x, x.shape, x.stride(), x.storage_offset() - early)
    return _formula.rms_norm(read, weight, eps)
