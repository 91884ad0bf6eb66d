"""Mutant: raises for rows of one element.

No model has such a row, so no model-driven test asks; a size is never a reason to refuse.
"""

from conformance.mutants import _formula

# Labelled REFUSE-ALIKE at first. A case asks for the width, and SIZE-WIDTH is the sentence about it.
BREAKS = "SIZE-WIDTH"
SOURCE = "rule of the suite: hidden_size 1; written from it"
TRIGGER = "fp32, x of (4, 1)"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    if x.shape[-1] == 1:
        raise ValueError("hidden_size must be at least 2")
    return _formula.fused_add_rms_norm(x, residual, weight, eps)
