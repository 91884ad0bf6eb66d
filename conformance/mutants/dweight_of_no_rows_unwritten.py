"""Mutant: allocates dweight, starts the kernel that fills it where there are rows, and returns it either
way.

With 0 rows it is what the memory held, and fresh memory is often zero.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "MEM-UNWRITTEN"
SOURCE = "B55: uninitialised dW for M = 0"
TRIGGER = "fp32, 0 rows"
NEEDS = "cpu"


def _dweight(s):
    gradient = torch.empty(s.own_weight.shape, dtype=s.own_weight.dtype, device=s.own_weight.device)
    if len(s.dy):
        gradient.copy_(s.sum)
    return gradient


OP = _gradient.op(dweight=_dweight)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
