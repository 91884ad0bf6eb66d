"""Mutant: every 25th element of y has the wrong sign.

A verdict that allows 5 % of the elements to differ, as one vendor's does, passes it.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ACCURACY-INTERVAL"
SOURCE = "known wrong formula perm5pct"
TRIGGER = "fp32, H = 25"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    y = _formula.rms_norm(x, weight, eps).contiguous()
    index = torch.arange(y.numel(), device=y.device).reshape(y.shape)
    return torch.where(index % 25 == 24, -y, y)
