"""Mutant: one mean square over the whole tensor scales all rows.

Rows of one random distribution have nearly the same mean square.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-ROWS"
SOURCE = "specification: the mean is over axis -1; written from the formula"
TRIGGER = "fp32, two rows of different scale"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms = (x.float().square().mean() + eps).rsqrt() if x.numel() else 1.0
    return _formula.scale(x, rrms, weight, x.dtype)
