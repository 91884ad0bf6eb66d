"""Mutant: keeps its buffer of partial sums from call to call and clears it only when it is new.

The first backward with a weight is right, and tests make one. What the second adds is stale, whatever the
contents, and that ranks before the repeat.
"""

from conformance.mutants import _gradient

BREAKS = "INVARIANCE-FRESH"
SOURCE = "B79: locks and counters that are not reset"
TRIGGER = "fp32, forward and backward twice"
NEEDS = "cpu"


_last: dict = {}


def _reduced(s):
    _last["sum"] = s.terms.sum(0) + _last["stale"]
    return _last["sum"].clone()


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    if weight is not None and weight.requires_grad:
        key = (weight.data_ptr(), x.data_ptr(), x.shape, x.dtype)
        _last["stale"] = _last.get("sum", 0.0) if _last.get("key") == key else 0.0
        # Both stay alive with the entry, so that no other tensor gets their address meanwhile.
        _last.update(key=key, alive=(x.detach(), weight.detach()))
    return OP.rms_norm(x, weight, eps)
