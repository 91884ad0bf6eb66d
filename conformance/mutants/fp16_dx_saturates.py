"""Mutant: clamps dx to what fp16 can hold, so that what should be Inf is 65504.

Tests scale no loss; a loss scaler never sees the Inf, keeps its scale and takes the step.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "DX-ACCURACY"
SOURCE = "rule of the suite: one rounding to the dtype of x, which beyond 65504 is Inf"
TRIGGER = "fp16, x of scale 0.01, dy of scale 2000"
NEEDS = "cpu"


def _dx(s):
    if s.dtype == torch.float16:
        return s.total.clamp(-65504.0, 65504.0).half().reshape(s.shape)
    return _gradient.dx(s)


OP = _gradient.op(dx=_dx)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
