"""Mutant: keeps y for the backward and uses its memory as a workspace for x_hat.

The gradients are right; the next layer saved y and reads x_hat.
"""

from conformance.mutants import _gradient

BREAKS = "GRADMODE-OUTPUTS-UNTOUCHED"
SOURCE = "rule of the suite: saved tensors are read, not written"
TRIGGER = "fp32, a random weight"
NEEDS = "cpu"


def _terms(s):
    s.y.data.copy_(s.x_hat.reshape(s.shape))
    return _gradient.terms(s)


OP = _gradient.op(keeps_y=True, terms=_terms)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
