"""Mutant: subtracts the row's mean of dy * weight as well, as a layer norm's backward does.

Gradients of mean zero hide it.
"""

from conformance.mutants import _gradient

BREAKS = "DX-PROJECTION"
SOURCE = "specification: copy-pasting from a LayerNorm template"
TRIGGER = "fp32, dy of mean 1"
NEEDS = "cpu"


def _norm(s):
    return s.rrms * (s.a - s.a.mean(-1, keepdim=True) - s.x_hat * s.c)


OP = _gradient.op(norm=_norm)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
