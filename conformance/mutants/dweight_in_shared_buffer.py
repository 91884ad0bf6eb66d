"""Mutant: hands out dweight in a buffer kept for each shape, so that the next backward overwrites it.

Right when it is looked at before the next backward of that shape, as a test of one call does.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "GRADMODE-GRAPHS"
SOURCE = "the contract of autograd; an output buffer cached by shape"
TRIGGER = "two calls of one shape, whose gradients are compared after both"
NEEDS = "cpu"

_buffers: dict = {}


def _dweight(s):
    right = _gradient.RIGHT["dweight"](s)
    kept = _buffers.setdefault((right.shape, right.dtype, right.device), torch.empty_like(right))
    return kept.copy_(right)


OP = _gradient.op(dweight=_dweight)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
