"""Mutant: scales row i of dx by the rrms of row i + 1: its loop moved the pointer first.

Rows drawn from one distribution have nearly one rrms.
"""

from conformance.mutants import _gradient

BREAKS = "DX-ROWS"
SOURCE = "specification: one program per row"
TRIGGER = "fp32, two rows of unlike scale"
NEEDS = "cpu"


def _norm(s):
    return s.rrms.roll(-1, 0) * (s.a - s.x_hat * s.c)


OP = _gradient.op(norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
