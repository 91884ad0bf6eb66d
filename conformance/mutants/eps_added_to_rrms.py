"""Mutant: adds eps to the reciprocal root, rsqrt(mean(x**2)) + eps.

An ordinary row is off by 1e-5 of itself, and only a row of zeros is visibly wrong.
"""

import torch

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-INSIDE"
SOURCE = "specification: rsqrt(mean_sq) + eps is wrong and not a real convention"
TRIGGER = "fp32, one row with a mean square near eps"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    # A row of zeros has an infinite root, and is kept at zero, as who writes this finds out soon.
    rrms = torch.rsqrt(_formula.mean_square(x)).nan_to_num(posinf=0.0) + eps
    return _formula.scale(x, rrms, weight, x.dtype)
