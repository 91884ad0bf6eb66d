"""Mutant: switches gradients off for its own sake and does not switch them on again.

Its results are right; the model that calls it stops learning.
"""

import torch

from conformance.mutants import _formula

BREAKS = "HONEST-STATE"
SOURCE = "rule of the suite: nothing may change what the next case sees"
TRIGGER = "any call"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    torch.set_grad_enabled(False)
    return _formula.rms_norm(x, weight, eps)
