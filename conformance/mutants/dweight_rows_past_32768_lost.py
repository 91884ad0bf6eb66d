"""Mutant: has room for 1024 partial sums of 32 rows and drops what comes after.

Tests have a few thousand rows, a long context has more.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ROWS"
SOURCE = "B50, B53"
TRIGGER = "fp32, 32769 rows"
NEEDS = "cpu"


def _reduced(s):
    return s.terms[: 1024 * 32].sum(0)


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
