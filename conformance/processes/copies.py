"""Copies of what a call gave, taken at once: the bytes go into the arena, the rest into the record.

A tensor may be changed later, by the backward or by the next call; what is judged is what was there then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import torch

from conformance.processes.allocations import Allocation
from conformance.processes.protocol import Bump

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_plain(value: object) -> TypeGuard[torch.Tensor]:
    """Whether it is a tensor and no subclass of one; asks the type, since isinstance may run foreign code."""
    return type(value) in _PLAIN


def slots_of(result: Any) -> list[Any]:
    """What a function returned, slot by slot; [] for None."""
    if result is None:
        return []
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Copies:
    """Puts copies into the arena, one behind the other, and says where and what they are.

    buffers: the run's own memory by name, so that a tensor that lies in it can be told.
    """

    def __init__(self, arena: torch.Tensor, bump: Bump, buffers: Mapping[str, torch.Tensor]) -> None:
        self._arena, self._bump = arena, bump
        self._owners = {b.untyped_storage().data_ptr(): name for name, b in buffers.items()}

    def slot(self, value: Any, allocations: Sequence[Allocation]) -> dict[str, Any]:
        """What came back in one slot, its bytes in the arena."""
        if not issubclass(type(value), torch.Tensor):
            return {"kind": "none" if value is None else "other", "type": type(value).__name__}
        if not is_plain(value):  # reading one would run its own code
            return {"kind": "subclass", "type": type(value).__name__}
        if not _readable(value):
            kind = "meta" if value.is_meta else str(value.layout).removeprefix("torch.")
            return {"kind": "other", "type": f"{kind} tensor"}
        pointer = value.untyped_storage().data_ptr() if value.numel() else 0
        home = next((i for i, a in enumerate(allocations) if a.address == pointer), None)
        return {
            "kind": "tensor", "type": type(value).__name__,
            "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape),
            "strides": list(value.stride()), "device": value.device.type, **self._taken(value),
            "buffer": self._owners.get(pointer) if value.numel() else None, "offset": value.storage_offset(),
            "allocation": home, "poisonable": home is not None and allocations[home].kind.find("empty") >= 0,
        }  # fmt: skip

    def again(self, value: Any) -> dict[str, int] | None:
        """The bytes of a slot that was copied before, as they are now; None where `slot` took none."""
        return self._taken(value) if is_plain(value) and _readable(value) else None

    def statistic(self, name: str, value: torch.Tensor) -> dict[str, Any]:
        """A tensor that was saved for the backward."""
        dtype = str(value.dtype).removeprefix("torch.")
        return {"name": name, "dtype": dtype, "shape": list(value.shape), **self._taken(value)}

    def bands(self, allocation: Allocation) -> dict[str, Any]:
        """The canaries on both sides of what the implementation allocated."""
        before, after = allocation.bands()
        at = self._bump.take(before.numel() + after.numel())
        self._arena[at : at + before.numel()].copy_(before)
        self._arena[at + before.numel() : at + before.numel() + after.numel()].copy_(after)
        return {
            "kind": allocation.kind, "shape": list(allocation.shape), "dtype": allocation.dtype,
            "extent": allocation.extent, "at": at, "before": before.numel(), "after": after.numel(),
        }  # fmt: skip

    def _taken(self, value: torch.Tensor) -> dict[str, int]:
        flat = value.detach().contiguous().reshape(-1)
        flat = flat.as_strided(flat.shape, (1,))  # one element counts as contiguous whatever its stride is
        data = flat.view(torch.uint8) if flat.dtype != torch.bool else flat.to(torch.uint8)
        at = self._bump.take(data.numel())
        self._arena[at : at + data.numel()].copy_(data)
        return {"at": at, "nbytes": data.numel()}


def _readable(value: torch.Tensor) -> bool:
    return value.layout == torch.strided and not value.is_meta
