"""Mutant: stacks the partial sums of its blocks, and with 0 rows there is none to stack.

A test with rows is right; an expert without tokens stops the training.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ZERO-ROWS"
SOURCE = "specification: an empty sum is zero"
TRIGGER = "fp32, 0 rows"
NEEDS = "cpu"


def _reduced(s):
    blocks = [s.terms[start : start + 32].sum(0) for start in range(0, len(s.terms), 32)]
    return torch.stack(blocks).sum(0)


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
