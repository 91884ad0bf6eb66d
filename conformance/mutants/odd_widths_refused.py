"""Mutant: refuses every width that is not a multiple of 8.

Clean, and documented perhaps, but what it is asked to be is an RMSNorm of any width.
"""

from conformance.mutants import _formula

BREAKS = "REFUSE-ALIKE"
SOURCE = "specification: masking for non-divisible tails; B56"
TRIGGER = "fp32, H = 33"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] % 8:
        raise ValueError(f"hidden_size {x.shape[-1]} is not a multiple of 8")
    return _formula.rms_norm(x, weight, eps)
