"""Mutant: sums dy * weight * x_hat over the row and forgets to divide by hidden_size.

With H = 1 it is right, and on wide rows nobody computes dx by hand.
"""

from conformance.mutants import _gradient

BREAKS = "DX-PROJECTION"
SOURCE = "specification: (x_normed * rrms / H) * sum(dy * w * x_normed)"
TRIGGER = "fp32, any width above 1"
NEEDS = "cpu"


def _projection(s):
    return (s.a * s.x_hat).sum(-1, keepdim=True)


OP = _gradient.op(projection=_projection)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
