"""Mutant: y is rounded toward zero when it is stored in 16 bits.

Each element is within one ulp; the mean magnitude of every output is half an ulp too small.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ACCURACY-ROUNDING"
SOURCE = "B06"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    y = _formula.scale(x, _formula.rrms(x, eps), weight, torch.float32)
    return _formula.truncate(y, x.dtype)
