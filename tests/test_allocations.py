"""Tensors between guards look to honest code like any that torch has just made."""

from __future__ import annotations

import pytest
import torch

from conformance.processes.allocations import GuardAllocations


def squared_into_a_view(x: torch.Tensor) -> torch.Tensor:
    """The gradient of the sum of x², which was written into a part of a larger tensor."""
    out = torch.zeros(10)[3:7]
    out.copy_(x * x)
    (dx,) = torch.autograd.grad(out.sum(), x)
    return dx


def test_a_copy_into_a_view_keeps_its_gradient() -> None:
    """Autograd slices a new tensor by absolute storage offset there."""
    x = torch.arange(4.0, requires_grad=True)
    with GuardAllocations() as guard:
        dx = squared_into_a_view(x)
    assert dx.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert "zeros" in {a.kind for a in guard.allocations}
    assert "new_empty_strided" in {a.kind for a in guard.allocations}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize(
    ("shape", "stride"), [((3, 5), (5, 1)), ((3, 5), (1, 3)), ((2, 4), (9, 2)), ((), ())]
)
def test_shape_stride_and_offset_are_those_asked_for(
    dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    with GuardAllocations() as guard:
        made = torch.empty_strided(shape, stride, dtype=dtype)
    assert (made.dtype, made.shape, made.stride(), made.storage_offset()) == (dtype, shape, stride, 0)
    (one,) = guard.allocations
    assert made.data_ptr() == made.untyped_storage().data_ptr() == one.address
    before = [band.clone() for band in one.bands()]
    made.fill_(1)
    assert all(torch.equal(a, b) for a, b in zip(before, one.bands(), strict=True))
