"""Mutant: takes fp16 inputs below 6.1e-5, the subnormal ones, for 0 when it reads them.

Normal draws of unit variance have none to speak of; a quiet row has many, and fp32 holds each of them and
its square.
"""

import torch

from conformance.mutants import _formula

BREAKS = "RANGE-SMALL"
SOURCE = "requirement: squares that are normal in fp32, whatever the dtype of x; a conversion that flushes"
TRIGGER = "fp16, x of scale 1e-4"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    if x.dtype == torch.float16:
        x = x.masked_fill(x.abs() < torch.finfo(x.dtype).smallest_normal, 0.0)
    return _formula.rms_norm(x, weight, eps)
