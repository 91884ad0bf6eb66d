"""Mutant: adds eps to the sum of squares before dividing by H, so that it weighs eps / H.

eps is used and sits inside the root; only its size betrays it, where the mean square is small.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-HONOURED"
SOURCE = "specification: rsqrt(mean_sq + eps); written from the formula"
TRIGGER = "fp32, H = 64, one row with a mean square near eps"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    total = x.float().square().sum(-1, keepdim=True)
    rrms = ((total + eps) / x.shape[-1]).rsqrt()
    return _formula.scale(x, rrms, weight, x.dtype)
