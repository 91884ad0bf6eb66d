"""Mutant: rounds dresidual to x's dtype, because it is the tensor that is dx as well.

Autograd casts it back to the residual's fp32, so that dtype and shape are right.
"""

from conformance.mutants import _gradient

BREAKS = "DRESIDUAL-ACCURACY"
SOURCE = "public practice of one tensor for both; fp32 residual streams"
TRIGGER = "bf16 x with an fp32 residual"
NEEDS = "cpu"


def _dresidual(s):
    return s.total.to(s.dtype).to(s.residual_dtype).reshape(s.shape)


OP = _gradient.op(dresidual=_dresidual)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
