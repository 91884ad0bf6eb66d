"""Mutant: a grid of at most 65535 rows leaves the rows beyond it at zero.

Tests have a few thousand rows; batched prefill of short heads has more.
"""

import torch

from conformance.mutants import _formula

BREAKS = "SIZE-MANY-ROWS"
SOURCE = "B53; rule of the suite: more than 65535 rows"
TRIGGER = "fp32, 65537 rows of 8"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    right = _formula.rms_norm(x, weight, eps)
    y = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    n_rows = x.numel() // x.shape[-1]
    y.view(n_rows, x.shape[-1])[:65535] = right.reshape(n_rows, x.shape[-1])[:65535]
    return y
