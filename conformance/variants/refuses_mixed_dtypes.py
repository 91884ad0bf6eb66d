"""Variant: a template over one dtype: x, residual and weight must agree, else it refuses before it writes."""

from conformance.mutants import _formula

CONVENTION = {
    "none": "one rounding",
    "residual": "one rounding, exact sum",
    "residual_in_place": "one rounding, exact sum",
}
REFUSES = ("dtypes",)


def _one_dtype(x, **others):
    for name, tensor in others.items():
        if tensor is not None and tensor.dtype != x.dtype:
            raise TypeError(f"{name}.dtype={tensor.dtype}, but should be x's, {x.dtype}")


def rms_norm(x, weight, eps=1e-6):
    _one_dtype(x, weight=weight)
    return _formula.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    _one_dtype(x, residual=residual, weight=weight)
    return _formula.fused_add_rms_norm(x, residual, weight, eps)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    y, residual_out = fused_add_rms_norm(x, residual, weight, eps)
    x.copy_(y)
    residual.copy_(residual_out)
