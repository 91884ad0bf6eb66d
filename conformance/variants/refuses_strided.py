"""Variant: asks for contiguous tensors and says so, in place and functional, before it writes anything."""

from conformance.mutants import _formula

CONVENTION = {"none": "one rounding", "residual_in_place": "one rounding, exact sum"}
REFUSES = (
    "x:row_slice", "x:column_offset", "x:column_step", "x:transposed", "x:expanded", "x:split_heads",
    "x:int64_stride", "residual", "weight:column_step", "weight:expanded",
)  # fmt: skip


def _contiguous(**tensors):
    for name, tensor in tensors.items():
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"{name}.stride()={tensor.stride()}, but should be contiguous")


def rms_norm(x, weight, eps=1e-6):
    _contiguous(x=x, weight=weight)
    return _formula.rms_norm(x, weight, eps)


def fused_add_rms_norm_(x, residual, weight, eps=1e-6):
    _contiguous(x=x, residual=residual, weight=weight)
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    x.copy_(y)
    residual.copy_(residual_out)
