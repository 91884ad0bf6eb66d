"""Mutant: of each pair of columns rounds the first before the weight and the second after it, two paths
of a packed multiplication.

Each element follows a convention that is used somewhere; the tensor follows none, and a tolerance allows
both.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ACCURACY-INTERVAL"
SOURCE = "specification: pick one and stay consistent; B03, B04, within one tensor"
TRIGGER = "bf16, any row with a weight"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms = _formula.rrms(x, eps)
    once = _formula.scale(x, rrms, weight, x.dtype)
    twice = _formula.scale(_formula.scale(x, rrms, None, x.dtype), 1.0, weight, x.dtype)
    odd = torch.arange(x.shape[-1], device=x.device) % 2 == 1
    return torch.where(odd, once, twice)
