"""Mutant: the sum of squares stops after 8192 columns, while it is still divided by H.

All common hidden sizes are at most 8192, and the columns beyond are written normally.
"""

from conformance.mutants import _formula

BREAKS = "TAIL-COLUMNS"
SOURCE = "B56"
TRIGGER = "fp32, H = 8193 with a large last column"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    total = x[..., :8192].float().square().sum(-1, keepdim=True)
    return _formula.scale(x, (total / x.shape[-1] + eps).rsqrt(), weight, x.dtype)
