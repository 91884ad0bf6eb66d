"""Mutant: lays a row behind the sums of its warps, at the next multiple of four, in a buffer with no room
for that: the end of a row overwrites the first sums of the next.

With 4, 8 or 16 warps, as at 4096 and 8192, the multiple of four is the number of warps.
"""

import torch

from conformance.mutants import _formula

BREAKS = "TAIL-COLUMNS"
SOURCE = "B36: num_warps + H floats allocated, ceil4(num_warps) + H used"
TRIGGER = "fp32, two rows of 8193"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    hidden_size = x.shape[-1]
    h = x.float().reshape(x.numel() // hidden_size, hidden_size)
    warps = max(4, -(-hidden_size // 512))
    columns = -(-hidden_size // warps)
    squares = torch.nn.functional.pad(h.square(), (0, warps * columns - hidden_size))
    sums = squares.unflatten(-1, (warps, columns)).sum(-1)
    over = -warps % 4  # columns for which there is no room
    if over and len(h) > 1:
        sums[1:, :over] = h[:-1, hidden_size - over :]
    rrms = torch.rsqrt(sums.sum(-1, keepdim=True) / hidden_size + eps)
    return _formula.scale(h, rrms, weight, x.dtype).reshape(x.shape)
