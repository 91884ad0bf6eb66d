"""Mutant: an fp16 input rounds eps to fp16, where 1e-6 is a subnormal with four bits and 1e-8 is
zero.

bf16 and fp32 are right, and so is fp16 as long as the mean square dwarfs eps.
"""

import torch

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-HONOURED"
SOURCE = "B10; written as a dtype-dependent form of it"
TRIGGER = "fp16, x of scale 1e-3, eps 1e-6"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    if x.dtype == torch.float16:
        eps = torch.tensor(eps, dtype=torch.float16).item()
    return _formula.scale(x, _formula.rrms(x, eps), weight, x.dtype)
