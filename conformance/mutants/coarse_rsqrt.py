"""Mutant: an approximate reciprocal root with 10 good bits and no Newton step.

The error of 2**-10 is below one bf16 ulp: no single bf16 element betrays it, all of them
together do.
"""

from conformance.mutants import _formula

BREAKS = "ACCURACY-GAIN"
SOURCE = "known wrong formula rsqrt_10bit"
TRIGGER = "fp32, any row; bf16, H = 4096"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    rrms = _formula.rrms(total, eps) * (1 + 2**-10)
    return _formula.scale(total, rrms, weight, x.dtype), total.to(residual.dtype)
