"""Mutant: adds dweight up in a workspace that the forward has cleared.

A graph is used once in most tests; with retain_graph the second gradient is the sum of both.
"""

from conformance.mutants import _gradient

BREAKS = "GRADMODE-RETAINED"
SOURCE = "contract of autograd: retain_graph"
TRIGGER = "fp32, backward twice over one graph"
NEEDS = "cpu"


def _reduced(s):
    s.kept["sum"] = s.terms.sum(0) + s.kept.get("sum", 0.0)
    return s.kept["sum"].clone()


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
