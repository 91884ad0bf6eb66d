"""Variant: the backward is all float64; each gradient is rounded to fp32 and then to its own dtype."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()
WARNS = ("RRMS-READ",)


def _upstream(s):
    return _gradient.rows(s.given.double())


def _x_hat(s):
    exact = s.h.double()
    s.rrms = (exact.square().mean(-1, keepdim=True) + s.eps).rsqrt()
    return exact * s.rrms


def _total(s):
    return _gradient.total(s).float()


def _dweight(s):
    return s.sum.float().to(s.own_weight.dtype)


OP = _gradient.op(upstream=_upstream, x_hat=_x_hat, total=_total, dweight=_dweight)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
