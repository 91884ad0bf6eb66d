"""Variant: takes any row stride and refuses tensors whose last dimension is not dense, and a vector as x."""

from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ("x:column_step", "x:transposed", "residual:column_step", "residual:transposed", "weight", "rank:1")

OP = _gradient.op()


def _dense(**tensors):
    for name, tensor in tensors.items():
        if tensor is not None and tensor.stride(-1) != 1 and tensor.shape[-1] > 1:
            raise ValueError(f"{name}.stride(-1)={tensor.stride(-1)}, but should be 1")


def _rows(x):
    if x.dim() < 2:
        raise ValueError("x has 1 dimension, but should have at least 2")


def rms_norm(x, weight, eps=1e-6):
    _rows(x)
    _dense(x=x, weight=weight)
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _rows(x)
    _dense(x=x, residual=residual, weight=weight)
    return OP.fused_add_rms_norm(x, residual, weight, eps)
