"""Mutant: smooths the statistic with that of the previous call on the same buffer, like a running mean.

The first call on a buffer is right, and tests make one call.
"""

from conformance.mutants import _formula

BREAKS = "INVARIANCE-FRESH"
SOURCE = "rule of the suite: first call and later calls"
TRIGGER = "fp32, two calls on one x with different contents"
NEEDS = "cpu"

_last: list = []


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms = _formula.rrms(x, eps)
    key = (x.data_ptr(), x.shape, x.stride(), x.dtype)
    if _last and _last[0] == key:
        rrms = 0.9 * rrms + 0.1 * _last[1]
    # x stays alive with its entry, so that no other tensor gets its address meanwhile.
    _last[:] = [key, rrms, x]
    return _formula.scale(x, rrms, weight, x.dtype)
