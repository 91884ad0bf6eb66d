"""Mutant: divides a row by its largest magnitude first, to keep squares small; a zero row
becomes 0 / 0.

More accurate than most on every other row.
"""

from conformance.mutants import _formula

BREAKS = "SPECIAL-ZERO-ROW"
SOURCE = "rule of the suite: an all-zero row gives 0"
TRIGGER = "fp32, one zero row"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.double()
    largest = h.abs().amax(-1, keepdim=True)
    unit = h / largest
    rrms = (unit.square().mean(-1, keepdim=True) + eps / largest / largest).rsqrt()
    y = unit * rrms if weight is None else unit * rrms * weight.double()
    return y.float().to(x.dtype)
