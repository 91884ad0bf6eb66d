"""Variant: the reciprocal root is 2 ulp too large, as far off as an approximate instruction may be."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _rrms(h, eps):
    exact = (h.double().square().mean(-1, keepdim=True) + eps).rsqrt().float()
    off = exact
    for _ in range(2):
        off = torch.nextafter(off, torch.full_like(off, torch.inf))
    return torch.where(exact == 0, exact, off)  # the instruction is exact for an infinite argument


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    return _formula.scale(h, _rrms(h, eps), weight, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    return _formula.scale(total, _rrms(total, eps), weight, x.dtype), total.to(residual.dtype)
