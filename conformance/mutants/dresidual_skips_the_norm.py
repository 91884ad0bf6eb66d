"""Mutant: hands residual_out's gradient on as dresidual: the norm's own part is missing.

A residual stream that is only passed through looks like one whose gradient is.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-SAME"
SOURCE = "rule of the suite: x and residual enter only as their sum"
TRIGGER = "fp32, a gradient on y"
NEEDS = "cpu"


def _dresidual(s):
    passed = s.norm * 0 if s.dresidual_out is None else s.dresidual_out
    return passed.to(s.residual_dtype).reshape(s.shape)


OP = _gradient.op(dresidual=_dresidual)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
