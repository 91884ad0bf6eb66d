"""Mutant: y is rounded away from zero when it is stored in 16 bits.

Each element is within one ulp; the mean magnitude of every output is half an ulp too large.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ACCURACY-BIAS"
SOURCE = "B06, the other direction"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    y = _formula.scale(x, _formula.rrms(x, eps), weight, torch.float32)
    inward = _formula.truncate(y, x.dtype)
    if x.dtype == torch.float32:
        return inward
    outward = (inward.view(torch.int16) + 1).view(x.dtype)
    return torch.where((inward.float() == y) | ~torch.isfinite(y), inward, outward)
