"""Mutant: the reciprocal root is rounded to bf16 before it scales the row.

All of a row's errors have one sign and stay within an ulp or two, so tolerances pass; depth adds
them up.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ACCURACY-RRMS"
SOURCE = "B07"
TRIGGER = "bf16, H = 640"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms = _formula.rrms(x, eps).to(torch.bfloat16).float()
    return _formula.scale(x, rrms, weight, x.dtype)
