"""Variant: the squares are added from the last column to the first, 256 columns at a time."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding"}
REFUSES = ()

CHUNK = 256


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    squares = h.square().flip(-1)
    total = torch.zeros(*x.shape[:-1], 1, dtype=torch.float32, device=x.device)
    for start in range(0, x.shape[-1], CHUNK):
        total = total + squares[..., start : start + CHUNK].sum(-1, keepdim=True)
    return _formula.scale(h, (total / x.shape[-1] + eps).rsqrt(), weight, x.dtype)
