"""Mutant: releases its lock before the partial sum has landed, and every eighth is lost.

On the card each run loses other ones; here always the same, so that it can be seen at once.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ROWS"
SOURCE = "B79"
TRIGGER = "fp32, 257 rows"
NEEDS = "cpu"


ROWS = 32


def _reduced(s):
    partial = [block.sum(0) for block in s.terms.split(ROWS)]
    landed = [p for i, p in enumerate(partial) if i % 8 != 7]
    return sum(landed[1:], landed[0])


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
