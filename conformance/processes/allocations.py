"""Guards around the tensors that an implementation allocates itself during a call.

A dispatch mode sees every factory call below the function under test. Each result is moved to a buffer of
its own with `BAND` bytes of canaries on both sides; what `empty` gives is filled with poison, so an element
that was never written shows. Results of other ATen functions are not moved; their names are reported as not
covered. (RNG, compiled code and native allocations lie below this mode: docs/design.md, memory safety.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.dlpack import from_dlpack, to_dlpack

from conformance.buffers import ALIGNMENT, ALLOCATED, POISON

BAND = 4096

_UNINITIALISED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
_FILLED = {
    "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full",
}  # fmt: skip


def _signed(word: int) -> int:
    return word - 0x10000


@dataclass
class Allocation:
    """One guarded tensor: `raw` holds band, elements (extent bytes) and band."""

    kind: str
    raw: torch.Tensor
    start: int
    extent: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def address(self) -> int:
        """Where the elements begin: the address of the guarded tensor's storage."""
        return self.raw.data_ptr() + self.start

    def bands(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The bytes before and after the elements."""
        end = self.start + self.extent
        return self.raw[self.start - BAND : self.start], self.raw[end : end + BAND]


class GuardAllocations(TorchDispatchMode):
    """Within it, every factory result lies between canaries; see `allocations` afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.allocations: list[Allocation] = []
        self.uncovered: set[str] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: that imports torch._dynamo, two seconds a worker; nothing is compiled under a dispatch mode."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _UNINITIALISED or name in _FILLED:
            if type(result) is torch.Tensor and result.layout == torch.strided and not result.is_meta:
                return self._rehome(name, result)
        elif _allocates(func, args, kwargs, result):
            self.uncovered.add(name)
        return result

    def _rehome(self, name: str, plain: torch.Tensor) -> torch.Tensor:
        size = plain.element_size()
        span = sum((n - 1) * s for n, s in zip(plain.shape, plain.stride(), strict=True))
        extent = (span + 1) * size if plain.numel() else 0
        # Two bytes a pattern: an odd extent is rounded up inside, and its last byte belongs to the band.
        raw = torch.empty(2 * BAND + extent + 2 * ALIGNMENT, dtype=torch.uint8, device=plain.device)
        start = BAND + (-(raw.data_ptr() + BAND)) % ALIGNMENT
        raw = raw[: (raw.numel() // 2) * 2]
        raw.view(torch.int16).fill_(_signed(ALLOCATED))
        inside = raw[start : start + extent]
        guarded = plain
        if extent:
            guarded = _alone(inside).view(plain.dtype).as_strided(plain.shape, plain.stride())
            if name in _FILLED:
                guarded.copy_(plain)
            elif extent % 2 == 0:
                inside.view(torch.int16).fill_(_signed(POISON))
        dtype = str(plain.dtype).removeprefix("torch.")
        self.allocations.append(Allocation(name, raw, start, extent, tuple(plain.shape), dtype))
        return guarded.requires_grad_(plain.requires_grad) if plain.requires_grad else guarded


def _alone(inside: torch.Tensor) -> torch.Tensor:
    """The same bytes as a storage of their own that starts with them, as that of any new tensor does.

    Autograd counts on it: after a copy into a view it takes a slice of a new tensor by absolute offset.
    """
    return from_dlpack(to_dlpack(inside))


def _allocates(func: Any, args: Any, kwargs: Any, result: Any) -> bool:
    """Whether an ATen function gave memory of its own: no view, nothing written in place or to out=."""
    if not isinstance(result, torch.Tensor) or result.numel() < 2:
        return False
    schema = func._schema
    return all(r.alias_info is None for r in schema.returns)
