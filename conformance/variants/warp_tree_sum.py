"""Variant: 32 lanes each add every 32nd square, then a butterfly adds the lanes, as a warp does."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()

LANES = 32


def _rrms(h, eps):
    squares = torch.nn.functional.pad(h.square(), (0, -h.shape[-1] % LANES))
    lanes = torch.zeros(*h.shape[:-1], LANES, dtype=torch.float32, device=h.device)
    for start in range(0, squares.shape[-1], LANES):
        lanes = lanes + squares[..., start : start + LANES]
    distance = LANES // 2
    while distance:
        lanes = lanes + lanes.roll(distance, -1)
        distance //= 2
    return (lanes[..., :1] / h.shape[-1] + eps).rsqrt()


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    return _formula.scale(h, _rrms(h, eps), weight, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    return _formula.scale(total, _rrms(total, eps), weight, x.dtype), total.to(residual.dtype)
