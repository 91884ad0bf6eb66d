"""Mutant: vector loads of the weight clear the low address bits, so a misaligned weight is read
early.

Parameters of their own are aligned; views into a flattened parameter buffer are not.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ALIGN-WEIGHT"
SOURCE = "B32: separately for each tensor"
TRIGGER = "fp32, a weight buf[1:9]"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    if weight is not None:
        early = min(weight.data_ptr() % 16 // weight.element_size(), weight.storage_offset())
        first = weight.storage_offset() - early
        weight = torch.as_strided(weight, weight.shape, weight.stride(), first)
    return _formula.rms_norm(x, weight, eps)
