"""Mutant: multiplies x by the weight in the input's dtype, and that by rrms in fp32.

(x * w) * rrms is the same function, but the rounding stands where no convention has it.
"""

from conformance.mutants import _formula

BREAKS = "ACCURACY-INTERVAL"
SOURCE = "specification: (x * w) * rrms, cast points and rounding differ"
TRIGGER = "bf16, any row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    weighted = x if weight is None else (x.float() * weight.float()).to(x.dtype)
    return _formula.scale(weighted, _formula.rrms(x, eps), None, x.dtype)
