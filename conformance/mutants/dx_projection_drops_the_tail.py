"""Mutant: sums the projection over whole vectors of eight columns only.

Widths that are multiples of eight, and the field has no others, are right.
"""

from conformance.mutants import _gradient

BREAKS = "DX-PROJECTION"
SOURCE = "B35, in the backward"
TRIGGER = "fp32, H = 33 with a large last column"
NEEDS = "cpu"


def _projection(s):
    whole = s.shape[-1] // 8 * 8
    return (s.a * s.x_hat)[:, :whole].sum(-1, keepdim=True) / s.shape[-1]


OP = _gradient.op(projection=_projection)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
