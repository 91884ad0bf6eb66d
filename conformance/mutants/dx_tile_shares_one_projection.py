"""Mutant: takes one projection for the four rows of a tile: the sum is over its elements.

With one row, or with gradients of one direction, it is right.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "DX-ROWS"
SOURCE = "specification: one program per row"
TRIGGER = "fp32, two rows"
NEEDS = "cpu"


def _projection(s):
    c = _gradient.projection(s)
    tiles = [tile.mean(0, keepdim=True).expand(len(tile), 1) for tile in c.split(4)]
    return torch.cat(tiles) if len(c) else c


OP = _gradient.op(projection=_projection)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
