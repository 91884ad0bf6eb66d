"""Mutant: sums the squares of whole vectors of 8 only and forgets the rest of the row.

Every model width is a multiple of 8. The columns left out are normalised and written all the
same.
"""

from conformance.mutants import _formula

BREAKS = "TAIL-COLUMNS"
SOURCE = "known wrong formula drop_tail8"
TRIGGER = "fp32, H = 33 with a large last column"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    hidden_size = x.shape[-1]
    whole = x[..., : hidden_size // 8 * 8].float()
    mean_square = whole.square().sum(-1, keepdim=True) / hidden_size
    return _formula.scale(x, (mean_square + eps).rsqrt(), weight, x.dtype)
