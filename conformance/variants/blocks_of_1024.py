"""Variant: the row is cut into blocks of 1024 columns, each is one tree; the blocks are added in order."""

import torch

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()

BLOCK = 1024


def _blocks(squares):
    padded = torch.nn.functional.pad(squares, (0, -squares.shape[-1] % BLOCK))
    return _sums.one_by_one(torch.cat([_sums.tree(block) for block in padded.split(BLOCK, -1)], -1))


rms_norm, fused_add_rms_norm = _sums.ops(_sums.rrms_of(_blocks))
