"""Mutant: works in place on fp32 inputs, because casting fp32 to fp32 makes no copy.

16-bit inputs are copied by the cast and stay intact; y is right in both.
"""

from conformance.mutants import _formula

BREAKS = "INPUTS-UNCHANGED"
SOURCE = "rule of the suite: undeclared overwriting"
TRIGGER = "fp32, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms = _formula.rrms(x, eps)
    x_hat = x.float().mul_(rrms)
    return _formula.scale(x_hat, 1.0, weight, x.dtype)
