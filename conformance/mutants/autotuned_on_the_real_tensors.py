"""Mutant: at the first call of a width and dtype tries two configurations, in place, on the caller's
tensors.

The second one adds the y of the first to the residual. Every later call is right, and a test that warms
up, or compares with eager on copies, sees later calls.
"""

from conformance.mutants import _formula

BREAKS = "RESIDUAL-EXACT"
SOURCE = "rule of the suite: first call and later calls; an autotuner that does not restore what it wrote"
TRIGGER = "fp32, in place, the first call"
NEEDS = "cpu"

_tuned: set = set()


def _launch(x, residual, weight, eps):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    x.copy_(y)
    residual.copy_(residual_out)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    key = (x.shape[-1], x.dtype)
    _launch(x, residual, weight, eps)
    if key not in _tuned:
        _launch(x, residual, weight, eps)
    _tuned.add(key)
