"""Mutant: adds the rows to dweight one after the other, in bf16.

Few rows are right within a bf16 tolerance; many stop adding anything.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ACCUMULATION"
SOURCE = "specification: the reduction accumulator must be fp32"
TRIGGER = "bf16, 257 rows"
NEEDS = "cpu"


def _reduced(s):
    total = torch.zeros(s.shape[-1], dtype=torch.bfloat16, device=s.terms.device)
    for row in s.terms:
        total = (total.float() + row).to(torch.bfloat16)
    return total


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
