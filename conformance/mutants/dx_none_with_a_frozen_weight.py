"""Mutant: returns at once where the weight needs no gradient, and dx is lost with dweight.

A test lets everything require a gradient; fine-tuning freezes the norms.
"""

from conformance.mutants import _gradient

BREAKS = "DX-PRESENT"
SOURCE = "rule of the suite: every combination of requires_grad"
TRIGGER = "fp32, a weight without requires_grad"
NEEDS = "cpu"


def _returned(s, gradients):
    return gradients if s.needs[2] else (None, None, None)


OP = _gradient.op(returned=_returned)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
