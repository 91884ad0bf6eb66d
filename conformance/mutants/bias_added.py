"""Mutant: adds a bias of 0.01 to every output, the learned shift of a LayerNorm that was never
removed.

A tolerance of 1e-2, usual in bf16, admits it on every element.
"""

import torch

from conformance.mutants import _formula

BREAKS = "FORMULA-NO-BIAS"
SOURCE = "specification: no bias"
TRIGGER = "fp32, any row; a zero row gives 0.01 instead of 0"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    y = _formula.scale(x, _formula.rrms(x, eps), weight, torch.float32)
    return (y + 0.01).to(x.dtype)
