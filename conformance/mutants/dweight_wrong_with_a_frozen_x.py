"""Mutant: takes dweight from a buffer that only the pass for dx fills.

x requires a gradient in every layer but the first.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "GRADMODE-COMBINATION"
SOURCE = "rule of the suite: every combination of requires_grad"
TRIGGER = "fp32, the weight alone requires a gradient"
NEEDS = "cpu"


def _terms(s):
    return _gradient.terms(s) if s.needs[0] else torch.zeros_like(s.x_hat)


OP = _gradient.op(terms=_terms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
