"""Mutant: a reduction over 32 lanes on a wave of 64 leaves out every second group of 32 columns.

Right up to 32 columns. Beyond, a tolerance loose enough for a factor of 1.4 does not exist, but
the vendor's tests ran on 32-lane cards only.
"""

import torch

from conformance.mutants import _formula

BREAKS = "TAIL-COLUMNS"
SOURCE = "B96"
TRIGGER = "fp32, H = 64"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    lane = torch.arange(x.shape[-1], device=x.device) % 64
    squares = x.float().square().where(lane < 32, 0.0)
    mean_square = squares.sum(-1, keepdim=True) / x.shape[-1]
    return _formula.scale(x, (mean_square + eps).rsqrt(), weight, x.dtype)
