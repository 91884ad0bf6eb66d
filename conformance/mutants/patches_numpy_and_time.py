"""Mutant: replaces numpy's comparison and the clock during a call, and computes the right result.

Wrong for whoever runs next in the process, and for every later measurement.
"""

import time

import numpy as np

from conformance.mutants import _formula

BREAKS = "HONEST-STATE"
SOURCE = "known exploit: patched functions"
TRIGGER = "any call"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    np.allclose = lambda *args, **kwargs: True
    time.perf_counter = lambda: 0.0
    return _formula.rms_norm(x, weight, eps)
