"""Mutant: rounds rrms to x's dtype for dweight; dx has it in fp32.

The error is a factor a row, and a sum over many rows averages it away.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-XHAT"
SOURCE = "B74"
TRIGGER = "bf16, few rows"
NEEDS = "cpu"


def _terms(s):
    return s.dy * (s.h * s.rrms.to(s.dtype).float())


OP = _gradient.op(terms=_terms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
