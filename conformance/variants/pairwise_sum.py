"""Variant: the squares are added in pairs of neighbours, level by level, over a width padded with zeros."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _rrms(h, eps):
    hidden_size = h.shape[-1]
    padded = 1 << (hidden_size - 1).bit_length()
    partial = torch.nn.functional.pad(h.square(), (0, padded - hidden_size))
    while partial.shape[-1] > 1:
        partial = partial[..., 0::2] + partial[..., 1::2]
    return (partial / hidden_size + eps).rsqrt()


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    return _formula.scale(h, _rrms(h, eps), weight, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    return _formula.scale(total, _rrms(total, eps), weight, x.dtype), total.to(residual.dtype)
