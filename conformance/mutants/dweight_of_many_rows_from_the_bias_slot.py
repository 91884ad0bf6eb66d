"""Mutant: above 32768 rows takes a second kernel, whose slots for the gradients of weight and bias are
exchanged.

dweight is then the sum of dy. Tests have some thousand rows at most.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-XHAT"
SOURCE = "B43: dgamma in dbeta's slot when M is large"
TRIGGER = "fp32, 32769 rows"
NEEDS = "cpu"

MANY = 32768


def _reduced(s):
    return s.dy.sum(0) if len(s.dy) > MANY else _gradient.reduced(s)


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
