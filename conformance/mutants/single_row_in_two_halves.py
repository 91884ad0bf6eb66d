"""Mutant: a single row is split over two programs that each divide by the statistic of their own
half.

Every batch of two rows or more is right; decoding one token is not.
"""

import torch

from conformance.mutants import _formula

# Labelled SIZE-ONE-ROW at first. At even widths the output equals one known wrong formula, a statistic of
# each half of the row, and a formula is named before a size.
BREAKS = "FORMULA-ROWS"
SOURCE = "specification: one program per row; written from it"
TRIGGER = "fp32, one row whose halves differ in scale"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    hidden_size = x.shape[-1]
    if x.numel() != hidden_size or hidden_size < 2:
        return _formula.rms_norm(x, weight, eps)
    halves = x.split([hidden_size // 2, hidden_size - hidden_size // 2], dim=-1)
    rrms = torch.cat([_formula.rrms(h, eps).expand_as(h) for h in halves], dim=-1)
    return _formula.scale(x, rrms, weight, x.dtype)
