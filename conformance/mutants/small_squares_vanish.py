"""Mutant: squares of fp16 inputs are taken in fp16 after dividing by 256, which avoids overflow
and loses small rows.

Right to fp16 accuracy at unit variance and far above; below 6e-2 the squares are subnormal, then
zero.
"""

import torch

from conformance.mutants import _formula

BREAKS = "RANGE-SMALL"
SOURCE = "B14, small side"
TRIGGER = "fp16, x of scale 1e-3, eps 1e-12"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    if x.dtype == torch.float16:
        small = (x.float() / 256).half()
        squares = (small * small).float() * 65536
    else:
        squares = x.float().square()
    return _formula.scale(x, (squares.mean(-1, keepdim=True) + eps).rsqrt(), weight, x.dtype)
