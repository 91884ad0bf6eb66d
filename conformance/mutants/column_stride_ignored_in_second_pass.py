"""Mutant: the statistic honours the column stride of x, the pass that normalises reads
neighbours instead.

Every x with adjacent columns is right, and no contiguous copy hides it in tests of layouts that
were never written.
"""

import torch

from conformance.mutants import _formula

BREAKS = "STRIDE-X"
SOURCE = "B23"
TRIGGER = "fp32, the transpose of a (64, 64) tensor"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms, read = _formula.rrms(x, eps), x
    if x.dim() == 2 and x.stride(1) > 1:
        read = torch.as_strided(x, x.shape, (x.stride(0), 1), x.storage_offset())
    return _formula.scale(read, rrms, weight, x.dtype)
