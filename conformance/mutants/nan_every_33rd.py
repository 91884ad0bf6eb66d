"""Mutant: every 33rd element of y is NaN.

A comparison written as `error > limit` is false for NaN and passes it.
"""

import torch

from conformance.mutants import _formula

BREAKS = "SPECIAL-NONFINITE"
SOURCE = "known wrong formula nan3pct"
TRIGGER = "fp32, H = 33"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    index = torch.arange(y.numel(), device=y.device).reshape(y.shape)
    return y.masked_fill(index % 33 == 32, float("nan")), residual_out
