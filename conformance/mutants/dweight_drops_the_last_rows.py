"""Mutant: gives each program 32 rows and rounds the number of programs down.

Batches that are multiples of 32, and tests have those, are right.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ROWS"
SOURCE = "specification: a cross-row reduction; B40"
TRIGGER = "fp32, 33 rows"
NEEDS = "cpu"


def _reduced(s):
    return s.terms[: len(s.terms) // 32 * 32].sum(0)


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
