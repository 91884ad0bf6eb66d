"""Mutant: raises on every call.

A harness that counts refusals as skips has nothing red to show.
"""

BREAKS = "REFUSE-ALIKE"
SOURCE = "rule of the suite: a refusal counts only where the valid twin passed"
TRIGGER = "any call"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    raise NotImplementedError("not supported on this device")
