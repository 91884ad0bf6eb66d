"""Mutant: an omitted eps becomes the machine epsilon of the input dtype, 7.8e-3 for bfloat16.

Every test that passes eps is right; with eps omitted and quiet activations bf16 is off by half.
"""

import torch

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-DEFAULT"
SOURCE = "B08"
TRIGGER = "bf16, H = 32, x of scale 0.05, eps omitted"
NEEDS = "cpu"


def rms_norm(x, weight, eps=None):
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    _formula.check(x, weight, eps)
    return _formula.scale(x, _formula.rrms(x, eps), weight, x.dtype)
