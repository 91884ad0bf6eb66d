"""Mutant: sets the default dtype to that of x and leaves it so.

Its results are right; every tensor made afterwards has another dtype.
"""

import torch

from conformance.mutants import _formula

BREAKS = "HONEST-STATE"
SOURCE = "rule of the suite: nothing may change what the next case sees"
TRIGGER = "bf16, any call"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    torch.set_default_dtype(x.dtype)
    return _formula.fused_add_rms_norm(x, residual, weight, eps)
