"""Mutant: reads dy as if it were contiguous.

The gradient of a sum is expanded, but most tests pass a fresh randn_like.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "GRADMODE-DY-LAYOUT"
SOURCE = "contract of autograd: a gradient may have any strides"
TRIGGER = "fp32, a transposed dy"
NEEDS = "cpu"


def _upstream(s):
    n_rows, hidden_size = s.h.shape
    storage = torch.as_strided(s.given, (_elements(s.given),), (1,), s.given.storage_offset())
    # Where the storage is shorter it starts anew, so that nothing beyond it is read.
    at = torch.arange(n_rows * hidden_size, device=s.given.device) % max(len(storage), 1)
    return storage[at].float().reshape(n_rows, hidden_size)


def _elements(tensor):
    """How many elements of the storage the tensor spans."""
    if not tensor.numel():
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))


OP = _gradient.op(upstream=_upstream)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)
