"""Mutant: says that eps is 1e-6 by default and takes 1e-3, copied from another layer's template.

Seen only where eps is left out and the mean square is not far above 1e-3.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-EPS-DEFAULT"
SOURCE = "specification: typically 1e-5 or 1e-6"
TRIGGER = "fp32, x of scale 0.05, eps omitted"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-3):
    _formula.check(x, weight, eps)
    return _formula.scale(x, _formula.rrms(x, eps), weight, x.dtype)
