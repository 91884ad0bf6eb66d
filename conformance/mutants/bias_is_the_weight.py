"""Mutant: a template with a bias gets none, falls back to the weight's pointer and adds the weight.

Needs no unusual input, but tests that compare a kernel with itself in another dtype agree on it.
"""

import torch

from conformance.mutants import _formula

BREAKS = "FORMULA-NO-BIAS"
SOURCE = "specification: do not add a bias_ptr for symmetry with LayerNorm"
TRIGGER = "fp32, any row with a weight"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    y = _formula.scale(x, _formula.rrms(x, eps), weight, torch.float32)
    return (y if weight is None else y + weight.float()).to(x.dtype)
