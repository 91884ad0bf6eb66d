"""Mutant: takes a dy whose strides are all 0 for the gradient of a sum, and so for ones.

`y.sum().backward()` gives just that; a mean, or a loss that is scaled, gives another number with the
same strides.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "GRADMODE-DY-LAYOUT"
SOURCE = "B29, the way around it: the expanded gradient of .sum()"
TRIGGER = "fp32, a dy of 0.75 that is expanded"
NEEDS = "cpu"


def _upstream(s):
    dy = _gradient.upstream(s)
    return torch.ones_like(dy) if dy.numel() > 1 and not any(s.given.stride()) else dy


OP = _gradient.op(upstream=_upstream)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
