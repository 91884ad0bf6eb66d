"""Variant: 256 threads with four columns each a step, a tree in each warp, then a tree over the warps.

The sums of the four columns of a thread are added in pairs before they meet its total, as vector loads give
them.
"""

import torch

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()

THREADS, VECTOR, WARP = 256, 4, 32


def _block(squares):
    padded = torch.nn.functional.pad(squares, (0, -squares.shape[-1] % (THREADS * VECTOR)))
    vectors = padded.unflatten(-1, (padded.shape[-1] // VECTOR, VECTOR))
    pairs = vectors[..., 0::2] + vectors[..., 1::2]
    threads = _sums.strided(pairs[..., 0] + pairs[..., 1], THREADS)
    warps = _sums.tree(threads.reshape(-1, WARP)).reshape(len(squares), THREADS // WARP)
    return _sums.tree(warps)


rms_norm, fused_add_rms_norm = _sums.ops(_sums.rrms_of(_block))
