"""Mutant: multiplies both terms of dx by rrms twice: the wrapper scales what the kernel has scaled.

Rows of unit mean square, and randn gives those, have an rrms of 1.
"""

from conformance.mutants import _gradient

BREAKS = "DX-RRMS"
SOURCE = "specification: only multiplies by rrms once per element"
TRIGGER = "fp32, a row of scale 4"
NEEDS = "cpu"


def _norm(s):
    return s.rrms * _gradient.norm(s)


OP = _gradient.op(norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
