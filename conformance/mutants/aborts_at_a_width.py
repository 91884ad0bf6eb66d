"""Mutant: aborts the process at H = 769, as a failed native assertion does.

All other widths are right; a suite in the same process loses every later result.
"""

import os

from conformance.mutants import _formula

BREAKS = "RUN-COMPLETES"
SOURCE = "B40; B98: aborts"
TRIGGER = "fp32, H = 769"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] == 769:
        os.abort()
    return _formula.rms_norm(x, weight, eps)
