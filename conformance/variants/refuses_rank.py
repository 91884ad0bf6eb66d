"""Variant: takes (n_rows, hidden_size) only and refuses every other rank."""

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ("rank:1", "rank:3", "rank:4")


def _two_dimensions(x):
    if x.dim() != 2:
        raise ValueError(f"x has {x.dim()} dimensions, but should have 2: (n_rows, hidden_size)")


def rms_norm(x, weight, eps=1e-6):
    _two_dimensions(x)
    return _formula.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _two_dimensions(x)
    return _formula.fused_add_rms_norm(x, residual, weight, eps)
