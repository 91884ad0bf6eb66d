"""Mutant: takes the weight's pointer for one of x's dtype, so that an fp32 weight beside bf16 is read as
twice as many bf16 numbers.

The read stays inside the weight, and every second number is plausible.
"""

import torch

from conformance.mutants import _formula

BREAKS = "DTYPE-MIXED"
SOURCE = "requirement: reading their bits as 16-bit numbers is silent; specification: confirm dtype"
TRIGGER = "bf16 x, fp32 weight"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    if weight is not None and weight.dtype != x.dtype:
        # With an fp32 x a 16-bit weight would be read past its end, which is another fault.
        narrow = x.dtype != torch.float32
        weight = weight.contiguous().view(x.dtype)[: x.shape[-1]] if narrow else weight.float()
    return _formula.rms_norm(x, weight, eps)
