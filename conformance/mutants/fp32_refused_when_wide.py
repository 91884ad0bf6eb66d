"""Mutant: has lost fp32 in the kernel for rows beyond 4096 columns, and refuses it there alone.

Each kernel was tested with the dtypes that it has.
"""

import torch

from conformance.mutants import _formula

BREAKS = "REFUSE-ALIKE"
SOURCE = "B102, B100: one backend has fewer dtypes than the other"
TRIGGER = "fp32, H = 4097"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    if x.dtype == torch.float32 and x.shape[-1] > 4096:
        raise ValueError(f"no kernel image for x.dtype={x.dtype}; should be float16 or bfloat16")
    return _formula.rms_norm(x, weight, eps)
