"""Mutant: writes dx into the memory of dy, without saying that it may.

The gradients are right; whoever else was to read dy gets dx.
"""

from conformance.mutants import _gradient

BREAKS = "GRADMODE-DY-UNTOUCHED"
SOURCE = "B70"
TRIGGER = "fp32, a contiguous dy"
NEEDS = "cpu"


def _upstream(s):
    return _gradient.rows(s.given.float()).clone()


def _dweight(s):
    gradient = _gradient.dweight(s)
    if s.total is not None and s.given.is_contiguous():
        s.given.copy_(s.total.reshape(s.shape))
    return gradient


OP = _gradient.op(upstream=_upstream, dweight=_dweight)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
