"""Variant: dweight in two stages: fp32 partial sums of 32 rows each, then the sum of these."""

import torch

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


ROWS = 32


def _reduced(s):
    if not len(s.terms):
        return s.terms.sum(0)
    partial = torch.stack([block.sum(0) for block in s.terms.split(ROWS)])
    return partial.sum(0)


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
