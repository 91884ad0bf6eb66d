"""Mutant: adds the projection's products in x's dtype.

Signed terms cancel, so that the sum is small, and its error looks like noise.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "DX-ACCURACY"
SOURCE = "specification: forgetting fp32 accumulation"
TRIGGER = "bf16, H = 1000"
NEEDS = "cpu"


def _projection(s):
    # Each partial sum is rounded, in the order of a tree.
    partial = (s.a * s.x_hat).to(s.dtype)
    while partial.shape[-1] > 1:
        partial = torch.nn.functional.pad(partial, (0, partial.shape[-1] % 2))
        partial = partial[:, 0::2] + partial[:, 1::2]
    return partial.float() / s.shape[-1]


OP = _gradient.op(projection=_projection)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
