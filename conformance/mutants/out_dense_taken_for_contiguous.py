"""Mutant: fills an out without gaps from its first address to its last, row after row, in whatever order
its dimensions lie.

Nothing is written outside, and nothing is left unwritten; only the elements of a transposed out are
exchanged.
"""

import torch

from conformance.mutants import _formula

BREAKS = "STRIDE-OUT"
SOURCE = "specification: pass out_stride, do not hardcode H; contract of an out parameter"
TRIGGER = "fp32, out = torch.empty(8, 4).t()"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6, out=None):
    y = _formula.rms_norm(x, weight, eps)
    if out is None:
        return y
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError("out must be like x")
    reach = 1 + sum((n - 1) * stride for n, stride in zip(out.shape, out.stride(), strict=True))
    if reach == out.numel():
        torch.as_strided(out, y.shape, y.contiguous().stride(), out.storage_offset()).copy_(y)
    else:
        out.copy_(y)
    return out
