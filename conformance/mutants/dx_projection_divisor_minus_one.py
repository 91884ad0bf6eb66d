"""Mutant: divides the projection's row sum by hidden_size - 1.

On wide rows the difference is one part in H of a small term.
"""

from conformance.mutants import _gradient

BREAKS = "DX-PROJECTION"
SOURCE = "known wrong formula div_Nm1, in the backward"
TRIGGER = "fp32, H = 3"
NEEDS = "cpu"


def _projection(s):
    return (s.a * s.x_hat).sum(-1, keepdim=True) / max(s.shape[-1] - 1, 1)


OP = _gradient.op(projection=_projection)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
