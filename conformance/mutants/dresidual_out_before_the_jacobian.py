"""Mutant: adds the gradient of residual_out to dy, before the norm's Jacobian instead of after it.

A test that goes back through y alone never sees it.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-AFTER"
SOURCE = "B68"
TRIGGER = "fp32, gradients on both outputs"
NEEDS = "cpu"


def _upstream(s):
    dy = _gradient.rows(s.given.float())
    return dy if s.dresidual_out is None else dy + s.dresidual_out


def _total(s):
    return s.dresidual_out if s.norm is None else s.norm


OP = _gradient.op(upstream=_upstream, total=_total)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
