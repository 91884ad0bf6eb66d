"""Mutant: takes the stride of the second last dimension for the distance of all rows.

Right for two dimensions and for contiguous tensors of any rank; heads split from a fused
projection are not.
"""

import torch

from conformance.mutants import _formula

BREAKS = "STRIDE-RANK"
SOURCE = "B24"
TRIGGER = "fp32, qkv[:, :8].view(2, 2, 4) of a (2, 24) tensor"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    if x.dim() < 3 or x.numel() == 0 or x.stride(-2) == 0:
        return _formula.rms_norm(x, weight, eps)
    n_rows, hidden_size = x.numel() // x.shape[-1], x.shape[-1]
    rows = torch.as_strided(x, (n_rows, hidden_size), x.stride()[-2:], x.storage_offset())
    return _formula.rms_norm(rows, weight, eps).reshape(x.shape)
