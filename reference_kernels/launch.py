"""Which kernel a row width gets, with which tile and how many warps: one explicit function.

No autotuning: a choice made by timing differs from run to run, and with it the order of the sum and
the last bits of y. The number of rows is left out on purpose for the same reason: a row must not change
its bits because other rows came along in the batch.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import torch
import triton

# The specification contradicts itself at 8192: "set BLOCK_SIZE = next_power_of_2(H)" for a hidden size
# of 8192, and "for H >= 8192, prefer the two-pass loop". One tile reads x once, the loop twice, so one
# tile wins for as long as the row fits the registers. Measured on one H200 (bf16, copy fraction, best tile
# and best loop): at 8192 plain 0.97 and 0.96, fused 0.99 and 0.97; at 16384 plain 0.97 and 0.94, fused
# 0.99 and 0.96. docs/performance.md has the table, and what is open above.
_ONE_TILE_CAP = 16384

# Rows this short get a tile of many rows: one row a program would leave most lanes idle.
_TILED_CAP = 512
_TILE_ELEMENTS = 4096
# A tile has at least as many elements as a program has threads. With fewer, Triton gives one element to
# several warps, and in place a slow one would read what a fast one has already overwritten.
_MOST_TILE_ROWS = 256

# Columns a step of the two-pass loop takes.
_LOOP_BLOCK_SIZE = 8192


class Launch(NamedTuple):
    """How one row width is run.

    kernel is "one_tile", "looped" or "tiled"; block_size is the kernel's BLOCK_SIZE, a power of two;
    tile_rows is how many rows one program takes (1 but for "tiled").
    """

    kernel: str
    block_size: int
    tile_rows: int
    num_warps: int

    @property
    def options(self) -> dict[str, int]:
        """The compile options. FP fusion (x * x + sum as one fma) is on in Triton before 3.10 and off
        from there on unless it is said, and it changes the last bits of y; so it is said."""
        return {"num_warps": self.num_warps, "enable_fp_fusion": True}


def configure(hidden_size: int, wave_size: int = 32) -> Launch:
    """Choose kernel, BLOCK_SIZE and num_warps for rows of hidden_size elements.

    wave_size is the number of lanes of a warp: 32 (NVIDIA, RDNA) or 64 (CDNA, where 4 or 8 warps are
    right). A program never has more than 1024 threads. hidden_size must be 1 or more; the wrappers
    have checked that.
    """
    block_size = triton.next_power_of_2(hidden_size)
    if block_size <= _TILED_CAP:
        tile_rows = min(_TILE_ELEMENTS // block_size, _MOST_TILE_ROWS)
        return Launch("tiled", block_size, tile_rows, 4)
    if block_size <= _ONE_TILE_CAP:
        return Launch("one_tile", block_size, 1, _count_warps(block_size, wave_size))
    return Launch("looped", _LOOP_BLOCK_SIZE, 1, 32 if wave_size == 32 else 8)


def _count_warps(block_size: int, wave_size: int) -> int:
    """About 16 elements a lane: 1024 columns 4 warps, 4096 columns 8, 8192 columns 16."""
    if wave_size == 64:
        return 4 if block_size <= 2048 else 8
    return min(max(block_size // 512, 4), 32)


def wave_size_of(device: torch.device) -> int:
    """Return the lanes of a warp on this device: 32, or what a ROCm device says of itself."""
    if device.type != "cuda" or torch.version.hip is None:
        return 32
    # Older torch does not report it; 64 is right for every CDNA card, and safe on the others.
    return getattr(properties_of(device), "warp_size", 64)


def properties_of(device: torch.device) -> Any:
    """Return torch's properties of a GPU; asked once, because asking takes as long as launching."""
    return _properties(torch.cuda.current_device() if device.index is None else device.index)


_properties = functools.cache(torch.cuda.get_device_properties)


def on_device_of(x: torch.Tensor) -> contextlib.AbstractContextManager[object]:
    """Make x's GPU the current one while a kernel is launched; on the CPU there is nothing to do."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()
