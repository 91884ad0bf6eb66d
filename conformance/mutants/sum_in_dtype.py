"""Mutant: squares and sums in the input's dtype, pairwise, instead of in fp32.

A 16-bit tolerance admits most rows; in fp32 this is the right kernel.
"""

import torch

from conformance.mutants import _formula

BREAKS = "ACCURACY-SUM"
SOURCE = "B15; specification: the accumulator must be fp32"
TRIGGER = "bf16, H = 129"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    hidden_size = x.shape[-1]
    padded = 1 << (hidden_size - 1).bit_length()
    partial = torch.nn.functional.pad(x * x, (0, padded - hidden_size))
    while partial.shape[-1] > 1:
        half = partial.shape[-1] // 2
        partial = partial[..., :half] + partial[..., half:]
    rrms = (partial.float() / hidden_size + eps).rsqrt()
    return _formula.scale(x, rrms, weight, x.dtype)
