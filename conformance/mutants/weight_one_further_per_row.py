"""Mutant: the weight's address grows with the row, so row r reads it r elements further on
(wrapped here).

Row 0 is right, and with equal weights every row is.
"""

import torch

from conformance.mutants import _formula

BREAKS = "FORMULA-WEIGHT-INDEX"
SOURCE = "specification: weight_ptr + row_idx + col_offsets reads garbage"
TRIGGER = "fp32, two rows, unequal weights"
NEEDS = "cpu"


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    if weight is not None:
        n_rows, hidden_size = x.numel() // x.shape[-1], x.shape[-1]
        columns = torch.arange(hidden_size, device=x.device)
        rows = torch.arange(n_rows, device=x.device)
        weight = weight[(columns + rows[:, None]) % hidden_size].reshape(x.shape)
    return _formula.scale(x, _formula.rrms(x, eps), weight, x.dtype)
