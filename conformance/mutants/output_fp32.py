"""Mutant: returns y in fp32 for 16-bit inputs.

allclose promotes and passes; the next matrix product runs in another dtype or raises.
"""

import torch

from conformance.mutants import _formula

BREAKS = "OUTPUT-DTYPE"
SOURCE = "B21"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.scale(x, _formula.rrms(x, eps), weight, torch.float32)
