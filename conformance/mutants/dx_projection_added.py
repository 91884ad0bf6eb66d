"""Mutant: adds the projection term instead of subtracting it.

With random gradients the term is small, and its sign is lost in the tolerance.
"""

from conformance.mutants import _gradient

BREAKS = "DX-PROJECTION"
SOURCE = "specification: dx = rrms * (dy * w) - ..."
TRIGGER = "fp32, dy nearly parallel to x"
NEEDS = "cpu"


def _norm(s):
    return s.rrms * (s.a + s.x_hat * s.c)


OP = _gradient.op(norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
