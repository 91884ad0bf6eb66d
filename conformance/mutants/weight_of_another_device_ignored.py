"""Mutant: where weight and x are on different devices it takes a weight of ones, as if there were none.

Modules move all their tensors together; a weight left behind by an offloading scheme is not refused.
"""

from conformance.mutants import _formula

BREAKS = "REFUSE-DEVICE"
SOURCE = "specification: different dtype, layout, or device than x, resolve the mismatch; B105"
TRIGGER = "x on the GPU, the weight on the CPU"
NEEDS = "gpu"


def rms_norm(x, weight, eps=1e-6):
    own = weight if weight is None or weight.device == x.device else None
    return _formula.rms_norm(x, own, eps)
