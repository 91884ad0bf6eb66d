"""Mutant: forgets the square root and divides by mean(x**2) + eps.

Where the mean square is 1, as in randn, so is its root.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-ROOT"
SOURCE = "known wrong formula no_sqrt"
TRIGGER = "fp32, any row of scale 3"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    factor = 1 / (_formula.mean_square(total) + eps)
    return _formula.scale(total, factor, weight, x.dtype), total.to(residual.dtype)
