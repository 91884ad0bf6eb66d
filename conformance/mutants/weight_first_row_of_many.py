"""Mutant: accepts a stacked weight, one row for each group, and uses its first row for all.

The output has the right shape, and every test with a (H,) weight passes.
"""

from conformance.mutants import _formula

BREAKS = "REFUSE-SHAPE"
SOURCE = "B31"
TRIGGER = "fp32, x of (5, 8), weight of (6, 8)"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if weight is not None and weight.dim() == 2:
        weight = weight[0]
    return _formula.rms_norm(x, weight, eps)
