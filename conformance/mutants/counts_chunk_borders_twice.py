"""Mutant: sums the row in chunks of 1024 with an inclusive end, so the first column of each
later chunk counts twice.

Right up to 1024 columns; beyond, it adds one element in a thousand.
"""

from conformance.mutants import _formula

BREAKS = "TAIL-COLUMNS"
SOURCE = "specification: every chunk once; written from the two-pass loop"
TRIGGER = "fp32, H = 1025 with a large last column"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    hidden_size = x.shape[-1]
    total = 0.0
    for start in range(0, hidden_size, 1024):
        total = total + x[..., start : start + 1024 + 1].float().square().sum(-1, keepdim=True)
    return _formula.scale(x, (total / hidden_size + eps).rsqrt(), weight, x.dtype)
