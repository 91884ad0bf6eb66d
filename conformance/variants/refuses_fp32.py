"""Variant: made for 16 bits; refuses fp32 in any argument before it does anything."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ("x:float32", "dtypes")


def _sixteen_bits(**tensors):
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype not in (torch.float16, torch.bfloat16):
            raise TypeError(f"{name}.dtype={tensor.dtype}, but should be float16 or bfloat16")


def rms_norm(x, weight, eps=1e-6):
    _sixteen_bits(x=x, weight=weight)
    return _formula.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _sixteen_bits(x=x, residual=residual, weight=weight)
    return _formula.fused_add_rms_norm(x, residual, weight, eps)
