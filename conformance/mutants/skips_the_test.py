"""Mutant: calls pytest.skip, so that the test that calls it is counted as skipped.

Skipped tests are not red.
"""

import pytest

BREAKS = "REFUSE-CLEAN"
SOURCE = "rule of the suite: calls pytest.skip"
TRIGGER = "any call"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    pytest.skip("not on this machine")
