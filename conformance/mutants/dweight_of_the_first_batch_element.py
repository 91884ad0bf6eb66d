"""Mutant: sums dweight over the tokens of the first batch element only.

With two dimensions, or a batch of one, it is right.
"""

from conformance.mutants import _gradient

BREAKS = "DWEIGHT-AXES"
SOURCE = "specification: .sum(dim=tuple(range(rank-1)))"
TRIGGER = "fp32, x of shape (2, 3, 8)"
NEEDS = "cpu"


def _reduced(s):
    if len(s.shape) < 3:
        return _gradient.reduced(s)
    return s.terms.reshape(s.shape)[0].reshape(-1, s.shape[-1]).sum(0)


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
