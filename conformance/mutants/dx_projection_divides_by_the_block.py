"""Mutant: divides the projection's row sum by the power of two that holds the row.

The forward divides by H, and powers of two are what tests ask.
"""

from conformance.mutants import _gradient, _tile

BREAKS = "DX-PROJECTION"
SOURCE = "known wrong formula div_pow2, in the backward"
TRIGGER = "fp32, H = 33"
NEEDS = "cpu"


def _projection(s):
    return (s.a * s.x_hat).sum(-1, keepdim=True) / _tile.width(s.shape[-1])


OP = _gradient.op(projection=_projection)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
