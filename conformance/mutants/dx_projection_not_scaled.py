"""Mutant: scales the first term of dx by rrms and leaves the projection as it is.

Rows of unit mean square have an rrms of 1, and a bf16 tolerance of 0.2 hides the rest.
"""

from conformance.mutants import _gradient

BREAKS = "DX-RRMS"
SOURCE = "known wrong formula: rrms**2 instead of rrms**3"
TRIGGER = "fp32, a row of scale 4"
NEEDS = "cpu"


def _norm(s):
    return s.rrms * s.a - s.x_hat * s.c


OP = _gradient.op(norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
