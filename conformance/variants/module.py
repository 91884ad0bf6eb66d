"""Variant: an nn.Module with its own weight, as training code has it; eps belongs to the constructor."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


class RMSNorm(torch.nn.Module):
    """Root mean square norm over the last dimension, with an optional residual that is added first."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x, residual=None):
        if residual is None:
            return _formula.rms_norm(x, self.weight, self.eps)
        return _formula.fused_add_rms_norm(x, residual, self.weight, self.eps)


rms_norm = fused_add_rms_norm = RMSNorm
