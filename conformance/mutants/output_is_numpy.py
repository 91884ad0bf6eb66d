"""Mutant: returns y as a numpy array where numpy has the dtype, and a nested list where it has not.

Comparison helpers convert both sides and pass.
"""

import torch

from conformance.mutants import _formula

BREAKS = "OUTPUT-TYPE"
SOURCE = "rule of the suite: what may come back"
TRIGGER = "fp32, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    y = _formula.rms_norm(x, weight, eps).cpu()
    return y.tolist() if y.dtype == torch.bfloat16 else y.numpy()
