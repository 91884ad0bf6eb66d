"""Mutant: answers for rows of 4096 elements and refuses everything else.

A suite that skips what is refused finds that all of the rest passed.
"""

from conformance.mutants import _formula

BREAKS = "REFUSE-ALIKE"
SOURCE = "rule of the suite: refuses all but one case"
TRIGGER = "fp32, H = 8"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] != 4096:
        raise NotImplementedError("only hidden_size 4096 is supported")
    return _formula.rms_norm(x, weight, eps)
