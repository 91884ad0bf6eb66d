"""Mutant: has a backward in fp32 and fp16 only, and in bf16 hands out a plain tensor.

A gradient check runs in fp32 or fp64.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "GRADMODE-ALIKE"
SOURCE = "rule of the suite: forward only is said by every run or by none"
TRIGGER = "bf16, any"
NEEDS = "cpu"


OP = _gradient.op()


def rms_norm(x, weight, eps=1e-6):
    y = OP.rms_norm(x, weight, eps)
    return y.detach() if x.dtype == torch.bfloat16 else y
