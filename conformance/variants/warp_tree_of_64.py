"""Variant: 64 lanes, a wavefront of AMD, each add every 64th square, then a tree adds the lanes."""

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()

LANES = 64


def _wavefront(squares):
    return _sums.tree(_sums.strided(squares, LANES))


rms_norm, fused_add_rms_norm = _sums.ops(_sums.rrms_of(_wavefront))
