"""Variant: adds the partial sums of dweight in another order at each call, as atomic additions do."""

import itertools

import torch

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding"}
REFUSES = ()
WARNS = ("DWEIGHT-REPEAT",)


ROWS = 4

_calls = itertools.count()


def _reduced(s):
    partial = [block.sum(0) for block in s.terms.split(ROWS)]
    first = next(_calls) % len(partial)
    total = torch.zeros_like(partial[0])
    for block in partial[first:] + partial[:first]:
        total = total + block
    return total


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
