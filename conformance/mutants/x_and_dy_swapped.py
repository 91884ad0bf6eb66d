"""Mutant: reads x and dy from each other's slots when it computes dx.

The values have a gradient's size, and in the second term x and dy stand alike.
"""

from conformance.mutants import _gradient

BREAKS = "DX-PROJECTION"
SOURCE = "B77"
TRIGGER = "fp32, x = dy = [1, 0, 0, 0] is the only kind that agrees"
NEEDS = "cpu"


def _norm(s):
    a = s.h if s.weight is None else s.h * s.weight
    x_hat = s.dy * s.rrms
    return s.rrms * (a - x_hat * (a * x_hat).mean(-1, keepdim=True))


OP = _gradient.op(norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
