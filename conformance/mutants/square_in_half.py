"""Mutant: squares fp16 inputs in fp16 and sums the squares in fp32.

Overflows to infinity beyond 256 and so returns zeros there; test inputs of unit variance never
reach it.
"""

from conformance.mutants import _formula

BREAKS = "RANGE-LARGE"
SOURCE = "B14; specification: fp16 squaring overflows around 256"
TRIGGER = "fp16, x = 300"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    mean_square = (x * x).float().mean(-1, keepdim=True)
    return _formula.scale(x, (mean_square + eps).rsqrt(), weight, x.dtype)
