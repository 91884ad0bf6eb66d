"""Mutant: clamps every input to the range of fp16 first, whatever its dtype.

Changes nothing below 65504; bf16 residual streams of large models exceed it.
"""

from conformance.mutants import _formula

BREAKS = "RANGE-LARGE"
SOURCE = "specification: bf16 has fp32 range; written from it"
TRIGGER = "bf16, one element of 1e6"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    return _formula.rms_norm(x.clamp(-65504, 65504), weight, eps)
