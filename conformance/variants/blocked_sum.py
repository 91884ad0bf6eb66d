"""Variant: squares are added in blocks of 64 columns, then the 64 lanes one after the other."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding"}
REFUSES = ()

BLOCK = 64


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    squares = torch.nn.functional.pad(h.square(), (0, -x.shape[-1] % BLOCK))
    lanes = torch.zeros(*x.shape[:-1], BLOCK, dtype=torch.float32, device=x.device)
    for start in range(0, squares.shape[-1], BLOCK):
        lanes = lanes + squares[..., start : start + BLOCK]
    total = torch.zeros_like(lanes[..., :1])
    for lane in range(BLOCK):
        total = total + lanes[..., lane : lane + 1]
    return _formula.scale(h, (total / x.shape[-1] + eps).rsqrt(), weight, x.dtype)
