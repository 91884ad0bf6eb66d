"""Mutant: multiplies the projection term of dx by the weight a second time.

With a weight of ones, which tests have, it is right.
"""

from conformance.mutants import _gradient

BREAKS = "DX-WEIGHT"
SOURCE = "B71"
TRIGGER = "fp32, a random weight"
NEEDS = "cpu"


def _norm(s):
    again = 1.0 if s.weight is None else s.weight
    return s.rrms * (s.a - s.x_hat * s.c * again)


OP = _gradient.op(norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
