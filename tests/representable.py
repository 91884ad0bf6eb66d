"""Steps between representable values and rows with special ones, for tests at the edge of an interval."""

from __future__ import annotations

import numpy as np
import torch
from emulation import problem
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.accuracy import Problem
from conformance.numerics.bits import FORMATS, decode, encode

DTYPES = ("float16", "bfloat16", "float32")


def step(values: Tensor, dtype: str, direction: int) -> Tensor:
    """The next representable value of `dtype` up (1) or down (-1) from each value."""
    form = FORMATS[dtype]
    bits = encode(values.numpy(), dtype).astype(np.int64)
    magnitude = bits & ((1 << form.sign_shift) - 1)
    ordered = np.where(bits >> form.sign_shift, -magnitude, magnitude) + direction
    stepped = np.where(ordered < 0, -ordered | (1 << form.sign_shift), ordered)
    return torch.from_numpy(decode(stepped.astype(form.storage), dtype))


def changed(y: Tensor, row: int, column: int, value: float) -> Tensor:
    y = y.clone()
    y[row, column] = value
    return y


def special(dtype: str, *put: tuple[int, int, float | str], scale: float = 1.0, eps: float = 1e-6) -> Problem:
    return problem((4, 33), Fill(seed=1, scale=scale, put=put), dtype, fused=False, eps=eps)
