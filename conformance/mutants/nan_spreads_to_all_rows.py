"""Mutant: one NaN anywhere makes the whole output NaN, since rows share a scratch value.

Only a case with a NaN in one row and a look at the others tells.
"""

from conformance.mutants import _formula

BREAKS = "SPECIAL-NONFINITE"
SOURCE = "rule of the suite: leakage across rows"
TRIGGER = "fp32, two rows, a NaN in the first"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    y = _formula.rms_norm(x, weight, eps)
    return y.masked_fill(x.isnan().any(), float("nan"))
