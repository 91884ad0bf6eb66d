"""Mutant: replaces torch.allclose when it is imported, and returns zeros.

Any harness that runs in the same process compares with the replacement.
"""

import torch

BREAKS = "HONEST-STATE"
SOURCE = "known exploit: patched functions"
TRIGGER = "the import"
NEEDS = "cpu"

torch.allclose = lambda *args, **kwargs: True


def rms_norm(x, weight, eps=1e-6):
    return torch.zeros_like(x)
