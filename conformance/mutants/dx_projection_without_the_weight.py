"""Mutant: takes the row sum of dy * x_hat instead of dy * weight * x_hat.

With a weight of ones, which tests have, it is right; the sum is one that dweight needs anyway.
"""

from conformance.mutants import _gradient

BREAKS = "DX-WEIGHT"
SOURCE = "B71 inverted"
TRIGGER = "fp32, a random weight"
NEEDS = "cpu"


def _projection(s):
    return (s.dy * s.x_hat).mean(-1, keepdim=True)


OP = _gradient.op(projection=_projection)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
