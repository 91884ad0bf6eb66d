"""Mutant: divides the sum of squares by the number of elements that are not zero.

Random inputs hold no zeros, so the count is H; sparse activations show it.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-DIVISOR"
SOURCE = "specification: the denominator is H, not the count of valid lanes"
TRIGGER = "fp32, a row of which every third element is 0"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    total = x.float().square().sum(-1, keepdim=True)
    valid = (x != 0).sum(-1, keepdim=True).clamp(min=1)
    return _formula.scale(x, (total / valid + eps).rsqrt(), weight, x.dtype)
