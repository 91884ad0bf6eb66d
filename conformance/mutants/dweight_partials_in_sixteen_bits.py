"""Mutant: keeps its partial sums of eight rows in the weight's dtype.

The second stage adds in fp32, and what was lost before it is within tolerance.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ACCUMULATION"
SOURCE = "specification: the reduction accumulator must be fp32"
TRIGGER = "bf16, 33 rows"
NEEDS = "cpu"


def _reduced(s):
    partial = [block.sum(0).to(s.own_weight.dtype) for block in s.terms.split(8)]
    return sum((p.float() for p in partial[1:]), partial[0].float())


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
