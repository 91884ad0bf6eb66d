"""Variant: how many lanes add a row depends on how many rows there are, so that a device is filled.

So a row may have other bits in a larger batch, which is allowed and warned for.
"""

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()
WARNS = ("INVARIANCE-BATCH",)


def _lanes(squares):
    lanes = 512 >> min(9, len(squares).bit_length())
    return _sums.tree(_sums.strided(squares, lanes))


rms_norm, fused_add_rms_norm = _sums.ops(_sums.rrms_of(_lanes))
