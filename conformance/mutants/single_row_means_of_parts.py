"""Mutant: splits a single row over four programs and averages their reciprocal roots instead of their
mean squares.

Every batch of two rows or more takes another path. Where the parts of a row are alike, the averages are.
"""

import torch

from conformance.mutants import _formula

BREAKS = "SIZE-ONE-ROW"
SOURCE = "specification: one program per row; a split for decoding, written from it"
TRIGGER = "fp32, one row whose parts differ in scale"
NEEDS = "cpu"

PARTS = 4


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    hidden_size = x.shape[-1]
    if x.numel() != hidden_size or hidden_size < PARTS:
        return _formula.rms_norm(x, weight, eps)
    parts = [_formula.rrms(part, eps) for part in x.tensor_split(PARTS, dim=-1)]
    return _formula.scale(x, torch.stack(parts).mean(0), weight, x.dtype)
