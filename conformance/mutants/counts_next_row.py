"""Mutant: the sum of squares includes the first element of the next row.

The neighbour is one more element of the same size unless the rows differ in scale.
"""

from conformance.mutants import _formula

BREAKS = "TAIL-COLUMNS"
SOURCE = "known wrong formula count_next_row; B37"
TRIGGER = "fp32, two rows of which the second is 64 times larger"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    rows = x.float().reshape(x.numel() // x.shape[-1], x.shape[-1])
    total = rows.square().sum(-1)
    total[:-1] += rows[1:, 0].square()
    mean_square = (total / x.shape[-1]).reshape(*x.shape[:-1], 1)
    return _formula.scale(x, (mean_square + eps).rsqrt(), weight, x.dtype)
