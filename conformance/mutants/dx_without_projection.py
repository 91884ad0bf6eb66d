"""Mutant: leaves the projection out of dx, as if the rrms were a constant.

With random gradients the term is one part in sqrt(H) of the other, and loose tolerances let it go.
"""

from conformance.mutants import _gradient

BREAKS = "DX-PROJECTION"
SOURCE = "specification: dx = rrms * (dy * w) - ..."
TRIGGER = "fp32, dy nearly parallel to x"
NEEDS = "cpu"


def _norm(s):
    return s.rrms * s.a


OP = _gradient.op(norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
