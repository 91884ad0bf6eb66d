"""Mutant: adds the partial sums of its threads in a tree that halves the count, losing one
whenever it is odd.

With 8 elements a thread, H = 4096 gives 512 threads and loses nothing; H = 5120 gives 640, then
5.
"""

import torch

from conformance.mutants import _formula

BREAKS = "TAIL-COLUMNS"
SOURCE = "B47"
TRIGGER = "fp32, H = 24: three threads, the last of which is lost"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    hidden_size = x.shape[-1]
    squares = torch.nn.functional.pad(x.float().square(), (0, -hidden_size % 8))
    partial = squares.unflatten(-1, (squares.shape[-1] // 8, 8)).sum(-1)
    while partial.shape[-1] > 1:
        half = partial.shape[-1] // 2
        partial = partial[..., :half] + partial[..., half : 2 * half]
    return _formula.scale(x, (partial / hidden_size + eps).rsqrt(), weight, x.dtype)
