"""Variant: for devices without bf16, which it refuses in any argument; a module with its own weight."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ("x:bfloat16", "dtypes")


class RMSNorm(torch.nn.Module):
    """Root mean square norm of fp16 or fp32 rows, with an optional residual that is added first."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x, residual=None):
        for name, tensor in (("x", x), ("residual", residual), ("weight", self.weight)):
            if tensor is not None and tensor.dtype == torch.bfloat16:
                raise TypeError(f"{name}.dtype={tensor.dtype}, but should be float16 or float32")
        if residual is None:
            return _formula.rms_norm(x, self.weight, self.eps)
        return _formula.fused_add_rms_norm(x, residual, self.weight, self.eps)


rms_norm = fused_add_rms_norm = RMSNorm
