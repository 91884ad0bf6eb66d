"""Mutant: computes its statistic outside of the graph, so that autograd takes it for a constant.

y is right to the last bit, and dx nearly is with random gradients.
"""

from conformance.mutants import _formula

BREAKS = "DX-PROJECTION"
SOURCE = "public practice: a statistic under no_grad"
TRIGGER = "fp32, dy nearly parallel to x"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.scale(x, _formula.rrms(x.detach(), eps), weight, x.dtype)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _formula.check(x, weight, eps, residual)
    total = x.float() + residual.float()
    rrms = _formula.rrms(total.detach(), eps)
    return _formula.scale(total, rrms, weight, x.dtype), total.to(residual.dtype)
