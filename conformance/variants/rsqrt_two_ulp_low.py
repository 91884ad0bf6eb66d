"""Variant: the reciprocal root is 2 ulp too small, and the backward reads that."""

import torch

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _rrms(h, eps):
    exact = (h.double().square().mean(-1, keepdim=True) + eps).rsqrt().float()
    off = exact
    for _ in range(2):
        off = torch.nextafter(off, torch.zeros_like(off))
    return off


rms_norm, fused_add_rms_norm = _sums.ops(_rrms)
