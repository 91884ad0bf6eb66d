"""Mutant: divides the sum of squares by H - 1, the unbiased estimator of a variance.

At H = 4096 the output is off by 1.2e-4, far below a bf16 tolerance.
"""

from conformance.mutants import _formula

BREAKS = "FORMULA-DIVISOR"
SOURCE = "known wrong formula div_Nm1"
TRIGGER = "fp32, H = 7"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    total = x.float().square().sum(-1, keepdim=True)
    rrms = (total / (x.shape[-1] - 1) + eps).rsqrt()
    return _formula.scale(x, rrms, weight, x.dtype)
