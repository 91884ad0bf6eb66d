"""Mutant: stages a row in 48 KiB of shared memory and raises for any row that is larger.

The row is staged in fp32, so widths up to 12288 work in every dtype.
"""

from conformance.mutants import _formula

BREAKS = "SIZE-WIDTH"
SOURCE = "B56"
TRIGGER = "fp32, H = 16384"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] * 4 > 48 * 1024:
        raise RuntimeError("too much shared memory requested")
    return _formula.rms_norm(x, weight, eps)
