"""Variant: made for bf16 and fp32, whose range it needs; refuses fp16 in any argument."""

import torch

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ("x:float16", "dtypes")

OP = _gradient.op()


def _wide_range(**tensors):
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype == torch.float16:
            raise TypeError(f"{name}.dtype={tensor.dtype}, but should be bfloat16 or float32")


def rms_norm(x, weight, eps=1e-6):
    _wide_range(x=x, weight=weight)
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _wide_range(x=x, residual=residual, weight=weight)
    return OP.fused_add_rms_norm(x, residual, weight, eps)
