"""Mutant: stages a row in 48 KiB of shared memory and raises for any row that is larger.

Widths up to 12288 in fp32 and 24576 in 16 bits work.
"""

from conformance.mutants import _formula

BREAKS = "REFUSE-ALIKE"
SOURCE = "B56"
TRIGGER = "fp32, H = 16384"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] * 4 > 48 * 1024:
        raise RuntimeError("too much shared memory requested")
    return _formula.rms_norm(x, weight, eps)
