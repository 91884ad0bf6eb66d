"""Mutant: clamps dweight to what fp16 can hold, so that a sum beyond 65504 is not Inf.

It takes many rows and a scaled loss to get there; a loss scaler then never sees the Inf.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ACCURACY"
SOURCE = "rule of the suite: one rounding to the dtype of weight, which beyond 65504 is Inf"
TRIGGER = "fp16 weight, 257 rows, dy of scale 3000"
NEEDS = "cpu"


def _dweight(s):
    if s.own_weight.dtype == torch.float16:
        return s.sum.clamp(-65504.0, 65504.0).half()
    return _gradient.dweight(s)


OP = _gradient.op(dweight=_dweight)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
