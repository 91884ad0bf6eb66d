"""Variant: writes into out= where it is given, whatever its strides, and returns it."""

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding"}
REFUSES = ()


def rms_norm(x, weight, eps=1e-6, out=None):
    y = _formula.rms_norm(x, weight, eps)
    if out is None:
        return y
    if out.shape != y.shape or out.dtype != y.dtype:
        raise ValueError(f"out is {tuple(out.shape)} {out.dtype}, but should be like x")
    return out.copy_(y)
