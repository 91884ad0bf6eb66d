"""Variant: a backward that asks for contiguous gradients and says so."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ("dy", "dresidual_out")


def _contiguous(s):
    for name, tensor in (("dy", s.given), ("dresidual_out", s.given_residual_out)):
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"{name}.stride()={tensor.stride()}, but should be contiguous")


def _upstream(s):
    _contiguous(s)
    return _gradient.upstream(s)


def _total(s):
    _contiguous(s)  # y may have no gradient
    return _gradient.total(s)


OP = _gradient.op(upstream=_upstream, total=_total)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
