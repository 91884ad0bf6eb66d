"""Mutant: rounds fp16 and fp32 inputs to bf16 on loading, the only type of its matrix path.

bf16 tests are exact; an fp16 tolerance of 1e-2 admits three lost bits.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ACCURACY-INTERVAL"
SOURCE = "specification: cast input to fp32 immediately after loading"
TRIGGER = "fp16, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    narrow = x.to(torch.bfloat16).float()
    return _formula.scale(narrow, _formula.rrms(x, eps), weight, x.dtype)
