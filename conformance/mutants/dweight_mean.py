"""Mutant: averages dweight over the rows instead of summing it.

With one row it is right; a learning rate makes up for it elsewhere.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-ROWS"
SOURCE = "specification: reduces over the batch and time axes by a sum"
TRIGGER = "fp32, two rows"
NEEDS = "cpu"


def _reduced(s):
    return s.terms.sum(0) / max(len(s.terms), 1)


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
