"""Mutant: multiplies rrms by the weight first and keeps the product in the input's dtype.

One product for the row instead of two: with fp32 it is a matter of order, in 16 bits each column has an
error that all rows share.
"""

from conformance.mutants import _formula

BREAKS = "ACCURACY-RRMS"
SOURCE = "specification: folding rrms * w carelessly"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    factor = _formula.rrms(x, eps)
    if weight is not None:
        factor = (factor * weight.float()).to(x.dtype).float()
    return _formula.scale(x, factor, None, x.dtype)
