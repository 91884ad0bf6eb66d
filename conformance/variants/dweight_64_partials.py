"""Variant: dweight from 64 partial sums, one for every 64th row, that a tree adds up: 64 programs give it."""

from conformance.mutants import _gradient
from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()

PROGRAMS = 64


def _reduced(s):
    by_program = _sums.strided(s.terms.t(), PROGRAMS)
    return _sums.tree(by_program)[:, 0]


OP = _gradient.op(reduced=_reduced)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
