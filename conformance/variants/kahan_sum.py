"""Variant: the squares, and dweight's terms over the rows, are added with Kahan's compensation."""

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _reduced(s):
    return _sums.compensated(s.terms.t())[:, 0]


rms_norm, fused_add_rms_norm = _sums.ops(_sums.rrms_of(_sums.compensated), reduced=_reduced)
