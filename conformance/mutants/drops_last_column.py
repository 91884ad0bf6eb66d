"""Mutant: leaves the last column out of the sum of squares.

One column of 4096 is 0.01 % of the scale; only energy in the last column makes it visible in 16
bits.
"""

from conformance.mutants import _formula

BREAKS = "TAIL-COLUMNS"
SOURCE = "known wrong formula drop_last"
TRIGGER = "fp32, any width, 20 in the last column"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    mean_square = total[..., :-1].square().sum(-1, keepdim=True) / x.shape[-1]
    y = _formula.scale(total, (mean_square + eps).rsqrt(), weight, x.dtype)
    return y, total.to(residual.dtype)
