"""Mutant: computes dweight after dx has taken dy's place in its workspace.

dx is right, the caller's dy is intact, and dweight has the right shape.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-XHAT"
SOURCE = "B70"
TRIGGER = "fp32, x and weight require gradients"
NEEDS = "cpu"


def _terms(s):
    return (s.dy if s.norm is None else s.norm) * s.x_hat


OP = _gradient.op(terms=_terms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
