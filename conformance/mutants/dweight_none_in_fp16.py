"""Mutant: returns no gradient for a weight in fp16, the dtype its second kernel was not built for.

bf16 and fp32 are what tests train in.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-PRESENT"
SOURCE = "B70"
TRIGGER = "fp16, any"
NEEDS = "cpu"


def _returned(s, gradients):
    return (
        gradients if s.own_weight is None or s.own_weight.dtype != torch.float16 else (*gradients[:2], None)
    )


OP = _gradient.op(returned=_returned)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
