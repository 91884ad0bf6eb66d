"""Mutant: keeps the last result by the address of x and returns it again for the same address.

Tests use fresh tensors; an engine reuses its buffers for every token.
"""

from conformance.mutants import _formula

BREAKS = "INVARIANCE-FRESH"
SOURCE = "known exploit: a cache by address"
TRIGGER = "fp32, the same x with new contents"
NEEDS = "cpu"

_last: list = []


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    key = (x.data_ptr(), x.shape, x.stride(), x.dtype, weight is None or weight.data_ptr(), eps)
    if not _last or _last[0] != key:
        # x stays alive with its entry, so that no other tensor gets its address meanwhile.
        _last[:] = [key, _formula.rms_norm(x, weight, eps), x]
    return _last[1].clone()
