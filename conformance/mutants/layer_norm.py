"""Mutant: subtracts the mean first, a LayerNorm left over from a template.

Random inputs with zero mean hide it at large H: the mean of 4096 normal values is about 0.016.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-NO-MEAN"
SOURCE = "specification: there must be no mean-subtraction step"
TRIGGER = "fp32, one row with a mean of 3"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    centred = x.float() - x.float().mean(-1, keepdim=True)
    return _formula.scale(centred, _formula.rrms(centred, eps), weight, x.dtype)
