"""Mutant: adds the gradient of residual_out twice: in the kernel, and again in its wrapper.

Where both outputs are summed up and y's part is large, a factor of two in the other is within tolerance.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-ADDED"
SOURCE = "rule of the suite: each output's gradient by itself"
TRIGGER = "fp32, a gradient on residual_out"
NEEDS = "cpu"


def _total(s):
    right = _gradient.total(s)
    return right if s.dresidual_out is None else right + s.dresidual_out


OP = _gradient.op(total=_total)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
