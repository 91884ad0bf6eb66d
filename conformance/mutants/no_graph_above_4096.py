"""Mutant: computes rows wider than 4096 by another path, which has no backward.

Training runs on, without an error and without that gradient.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "GRADMODE-ALIKE"
SOURCE = "rule of the suite: forward only is said by every run or by none"
TRIGGER = "fp32, H = 4097"
NEEDS = "cpu"


WIDEST = 4096

OP = _gradient.op()


def rms_norm(x, weight, eps=1e-6):
    with torch.set_grad_enabled(x.shape[-1] <= WIDEST and torch.is_grad_enabled()):
        return OP.rms_norm(x, weight, eps)
