"""Mutant: never writes the last row of y; it holds whatever the memory held.

Freed memory often holds the right answer of the previous call.
"""

import torch

from conformance.mutants import _formula

BREAKS = "MEM-UNWRITTEN"
SOURCE = "known wrong formula last_row_stale"
TRIGGER = "fp32, two rows"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    right = _formula.rms_norm(x, weight, eps)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n_rows = x.numel() // x.shape[-1]
    rows = right.reshape(n_rows, x.shape[-1])
    y.view(rows.shape)[: n_rows - 1] = rows[: n_rows - 1]
    return y
