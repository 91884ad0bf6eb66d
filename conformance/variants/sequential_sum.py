"""Variant: every sum is taken term by term: the squares, the projection, dweight over the rows."""

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _projection(s):
    return _sums.one_by_one(s.a * s.x_hat) / s.h.shape[-1]


def _reduced(s):
    return _sums.one_by_one(s.terms.t())[:, 0]


rms_norm, fused_add_rms_norm = _sums.ops(
    _sums.rrms_of(_sums.one_by_one), projection=_projection, reduced=_reduced
)
