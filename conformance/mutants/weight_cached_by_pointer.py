"""Mutant: converts the weight to fp32 once and keeps the copy by address, also after the weight
was updated.

One call is right, and so is every call in inference; a training step or a weight swap is not.
"""

from conformance.mutants import _formula

BREAKS = "INVARIANCE-FRESH"
SOURCE = "known exploit: a cache by address; rule of the suite: new contents at the same addresses"
TRIGGER = "fp32, the same weight tensor with new contents"
NEEDS = "cpu"

_last: list = []


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    if weight is not None:
        key = (weight.data_ptr(), weight.shape, weight.stride(), weight.dtype)
        if not _last or _last[0] != key:
            _last[:] = [key, weight.float().clone(), weight]
        weight = _last[1]
    return _formula.fused_add_rms_norm(x, residual, weight, eps)
