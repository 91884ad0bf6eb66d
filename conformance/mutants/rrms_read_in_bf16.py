"""Mutant: rounds the saved rrms to bf16 when the backward loads it.

A factor that is 0.2 % off is within every bf16 tolerance, and the same for a whole row.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "DX-RRMS"
SOURCE = "B73"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def _rrms(s):
    return s.saved.to(torch.bfloat16).float()


OP = _gradient.op(rrms=_rrms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
