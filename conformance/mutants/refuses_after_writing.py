"""Mutant: adds x into the residual first and then finds that it cannot take a strided x.

The exception looks clean; the caller who falls back to another kernel adds x a second time.
"""

from conformance.mutants import _formula

BREAKS = "REFUSE-CLEAN"
SOURCE = "rule of the suite: a clean exception before anything is written"
TRIGGER = "fp32, in place, x a slice of wider rows"
NEEDS = "cpu"


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    residual.copy_(residual_out)
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    x.copy_(y)
