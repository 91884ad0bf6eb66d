"""Mutant: uses two buffers of partial sums in turn and clears each only when it is new.

The first and the second backward are right; the third adds to the first.
"""

from conformance.mutants import _gradient

BREAKS = "GRADMODE-REPEAT"
SOURCE = "B79: locks and counters that are not reset"
TRIGGER = "fp32, forward and backward three times"
NEEDS = "cpu"


_last: dict = {"calls": 0, "sums": {}}


def _reduced(s):
    turn = _last["calls"] % 2
    stale = _last["sums"].get(turn, 0.0) if _last["calls"] > 2 else 0.0
    _last["sums"][turn] = s.terms.sum(0) + stale
    return _last["sums"][turn].clone()


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    if weight is not None and weight.requires_grad:
        key = (weight.data_ptr(), x.data_ptr(), x.shape, x.dtype)
        if _last.get("key") != key:
            _last.update(calls=0, sums={})
        # Both stay alive with the entry, so that no other tensor gets their address meanwhile.
        _last.update(calls=_last["calls"] + 1, key=key, alive=(x.detach(), weight.detach()))
    return OP.rms_norm(x, weight, eps)
