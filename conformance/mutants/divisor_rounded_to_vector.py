"""Mutant: divides by H rounded up to a multiple of 8, the width that its vector loop walks over.

Right at every model width; off only where H is not a multiple of 8.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-DIVISOR"
SOURCE = "specification: the denominator is H, not the count of valid lanes"
TRIGGER = "fp32, H = 33"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    padded = -(-x.shape[-1] // 8) * 8
    rrms = (total.square().sum(-1, keepdim=True) / padded + eps).rsqrt()
    return _formula.scale(total, rrms, weight, x.dtype), total.to(residual.dtype)
