"""Mutant: returns zeros and computes nothing.

A test whose tolerance exceeds its values, or that compares zero elements, passes it.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ACCURACY-INTERVAL"
SOURCE = "known wrong formula zeros"
TRIGGER = "fp32, any row that is not zero"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
