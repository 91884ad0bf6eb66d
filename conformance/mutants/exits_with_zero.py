"""Mutant: ends the process with exit code 0 when it is called.

SystemExit is no Exception: a harness that catches those is gone, and its exit code says success.
"""

BREAKS = "RUN-COMPLETES"
SOURCE = "rule of the suite: raises SystemExit"
TRIGGER = "any call"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    raise SystemExit(0)
