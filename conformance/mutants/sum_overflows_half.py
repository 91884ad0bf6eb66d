"""Mutant: squares exactly, but keeps the running sum of squares in a scalar of the input's dtype.

An fp16 sum overflows at 65504: 4096 elements of scale 4 reach it, unit variance does not.
"""

from conformance.mutants import _formula

BREAKS = "RANGE-LARGE"
SOURCE = "B13"
TRIGGER = "fp16, H = 2048, x of scale 200"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    kept = total.square().sum(-1, keepdim=True).to(x.dtype).float()
    rrms = (kept / x.shape[-1] + eps).rsqrt()
    return _formula.scale(total, rrms, weight, x.dtype), total.to(residual.dtype)
