"""Variant: 1 / sqrt instead of rsqrt, and a division of the row instead of a product."""

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding"}
REFUSES = ()


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    rms = (_formula.mean_square(h) + eps).sqrt()
    return _formula.scale(h / rms, 1.0, weight, x.dtype)
