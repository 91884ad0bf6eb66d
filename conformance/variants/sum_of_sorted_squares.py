"""Variant: the squares are sorted and added from the largest on: the order in which rounding costs most."""

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _largest_first(squares):
    return _sums.one_by_one(squares.sort(-1, descending=True).values)


rms_norm, fused_add_rms_norm = _sums.ops(_sums.rrms_of(_largest_first))
