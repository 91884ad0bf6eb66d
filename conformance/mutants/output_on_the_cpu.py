"""Mutant: returns y on the CPU for an input on the GPU.

Tests that move both sides to the CPU before they compare never notice.
"""

from conformance.mutants import _formula

BREAKS = "OUTPUT-DEVICE"
SOURCE = "specification: y is stored on x's device; written from it"
TRIGGER = "any row on a GPU"
NEEDS = "gpu"


def rms_norm(x, weight, eps=1e-6):
    return _formula.rms_norm(x, weight, eps).cpu()
