"""Mutant: smooths the statistic with that of the previous call on a tensor of the same size,
like a running mean.

The first call on a size is right, and tests make one call.
"""

from conformance.mutants import _formula

BREAKS = "INVARIANCE-FRESH"
SOURCE = "DESIGN 10: first call and later calls"
TRIGGER = "fp32, two calls on different contents of one shape"
NEEDS = "cpu"

_running = {}


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rrms = _formula.rrms(x, eps)
    key = (x.shape, x.dtype, x.device)
    if key in _running:
        rrms = 0.9 * rrms + 0.1 * _running[key]
    _running[key] = rrms
    return _formula.scale(x, rrms, weight, x.dtype)
