"""Mutant: makes y with the strides of x, so that for an expanded x all rows of y are one row of memory.

Its values are right, since all rows are alike; who adds to one row of y in place adds to all.
"""

import torch

from conformance.mutants import _formula

BREAKS = "OUTPUT-STRIDE"
SOURCE = "B27: a fresh tensor with another one's strides; requirement on outputs that share memory"
TRIGGER = "fp32, x = row.expand(4, 8)"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    right = _formula.rms_norm(x, weight, eps)
    if 0 not in x.stride() or not x.numel():
        return right
    y = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    different = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.stride())
    y[different].copy_(right[different])
    return y
