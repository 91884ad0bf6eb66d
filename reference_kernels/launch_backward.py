"""Which backward kernel a row width gets, and how many programs walk over the rows.

The rule of launch.py holds here too: no autotuning. dx depends on the width alone. The last bits of dweight
depend on the number of programs as well, because each adds up its own rows first; that number follows from
the device and the number of rows, so a run repeated on one device has the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton

from . import launch

# Widths up to which a kernel is used: BLOCK_SIZE, so powers of two.
_TILED_CAP = 512
_ONE_TILE_CAP = 8192
_HALVED_CAP = 16384

# Rows this short get tiles of many rows; at least as many elements as a program has threads.
_TILE_ELEMENTS = 4096
_MOST_TILE_ROWS = 512

# Columns of a program where a row is cut into blocks, and of a step of the projection.
_COLUMNS_BLOCK_SIZE = 4096
_PROJECTION_BLOCK_SIZE = 4096
_PROJECTION_WARPS = 8

# Warps of a program, and persistent programs for each multiprocessor.
_WARPS = {"tiled": 8, "one_tile": 8, "halved": 8, "columns": 8}
_PROGRAMS = {"tiled": 2, "halved": 1, "columns": 2}
# Shorter rows get more programs, until a multiprocessor has this many columns to work on: memory is kept
# busy by bytes under way, and registers are full at about twice as many.
_ONE_TILE_COLUMNS = 8192

# Steps under way at a time, where they fit the shared memory: one in registers, the others there. Triton
# needs some of it for itself.
_STAGES = 3
_SHARED_BYTES_KEPT = 18 * 1024

# The second stage of dweight: elements a step, and at least this many programs for each multiprocessor.
_REDUCE_ELEMENTS = 4096
_REDUCE_PROGRAMS = 4
_REDUCE_WARPS = 4

# Without a GPU there are no multiprocessors. A few programs still stride over many rows.
_INTERPRETED_MULTIPROCESSORS = 3
_INTERPRETED_SHARED_BYTES = 65536


class BackwardLaunch(NamedTuple):
    """How one row width is run.

    kernel is "one_tile", "halved", "columns" or "tiled"; block_size is the kernel's BLOCK_SIZE, a power of
    two; tile_rows is how many rows a step takes (1 but for "tiled"); stages is how many steps are under way
    at a time; programs is the number of persistent programs for each multiprocessor.
    """

    kernel: str
    block_size: int
    tile_rows: int
    num_warps: int
    stages: int
    programs: int

    @property
    def options(self) -> dict[str, int]:
        """The compile options, as in launch.Launch."""
        return {"num_warps": self.num_warps, "enable_fp_fusion": True}


def configure(hidden_size: int, element_bytes: int, device: torch.device) -> BackwardLaunch:
    """Choose the kernel for rows of hidden_size elements on this device.

    element_bytes is what one element of a row takes in all the tensors that a step reads: 4 for bfloat16 dy
    and x. It decides how many steps may be under way and nothing that could change a bit of dx.
    """
    return choose(hidden_size, element_bytes, launch.wave_size_of(device), _shared_bytes_of(device))


def choose(hidden_size: int, element_bytes: int, wave_size: int, shared_bytes: int) -> BackwardLaunch:
    """Choose as `configure` does, from numbers alone.

    wave_size is the number of lanes of a warp (launch.configure has more), shared_bytes the shared memory of
    a multiprocessor.
    """
    block_size = triton.next_power_of_2(hidden_size)
    tile_rows = 1
    if block_size <= _TILED_CAP:
        kernel = "tiled"
        tile_rows = min(_TILE_ELEMENTS // block_size, _MOST_TILE_ROWS)
    elif block_size <= _ONE_TILE_CAP:
        kernel = "one_tile"
    elif block_size <= _HALVED_CAP:
        kernel, block_size = "halved", block_size // 2
    else:
        kernel, block_size = "columns", _COLUMNS_BLOCK_SIZE
    num_warps = _WARPS[kernel]
    programs = _PROGRAMS.get(kernel) or max(_ONE_TILE_COLUMNS // block_size, 1)
    if kernel == "one_tile" and block_size <= 2048:
        num_warps = 4
    if wave_size == 64:
        num_warps = min(num_warps, 8)
    step_bytes = block_size * tile_rows * element_bytes * (2 if kernel == "halved" else 1)
    in_shared = (shared_bytes - _SHARED_BYTES_KEPT) // programs // step_bytes
    stages = 1 + max(0, min(_STAGES - 1, in_shared))
    return BackwardLaunch(kernel, block_size, tile_rows, num_warps, stages, programs)


def count_walkers(how: BackwardLaunch, n_rows: int, hidden_size: int, device: torch.device) -> int:
    """Return how many programs stride over the rows side by side: the rows of the partial sums of dweight.

    As many as the device runs at a time, never more than there are steps to take.
    """
    programs = _multiprocessors_of(device) * how.programs
    return max(1, min(programs // _programs_a_row(how, hidden_size), triton.cdiv(n_rows, how.tile_rows)))


def grid(how: BackwardLaunch, walkers: int, hidden_size: int) -> tuple[int, ...]:
    """Return the launch grid."""
    across = _programs_a_row(how, hidden_size)
    return (across, walkers) if how.kernel == "columns" else (across * walkers,)


def projection_options() -> dict[str, int]:
    """Return BLOCK_SIZE and the compile options of the projection kernel."""
    return {"BLOCK_SIZE": _PROJECTION_BLOCK_SIZE, "num_warps": _PROJECTION_WARPS, "enable_fp_fusion": True}


def reduce_options(hidden_size: int, device: torch.device) -> dict[str, int]:
    """Return BLOCK_SIZE, BLOCK_ROWS and the compile options of the reduction.

    So few columns a program that every multiprocessor gets some, but not less than memory moves at once.
    """
    wanted = triton.cdiv(hidden_size, _multiprocessors_of(device) * _REDUCE_PROGRAMS)
    block_size = min(max(triton.next_power_of_2(wanted), 8), _REDUCE_ELEMENTS)
    return {
        "BLOCK_SIZE": block_size,
        "BLOCK_ROWS": _REDUCE_ELEMENTS // block_size,
        "num_warps": _REDUCE_WARPS,
        "enable_fp_fusion": True,
    }


def _programs_a_row(how: BackwardLaunch, hidden_size: int) -> int:
    return triton.cdiv(hidden_size, how.block_size) if how.kernel in ("halved", "columns") else 1


def _multiprocessors_of(device: torch.device) -> int:
    if device.type != "cuda":
        return _INTERPRETED_MULTIPROCESSORS
    return launch.properties_of(device).multi_processor_count


def _shared_bytes_of(device: torch.device) -> int:
    if device.type != "cuda":
        return _INTERPRETED_SHARED_BYTES
    # Older torch does not report it; 64 KiB is what the smallest multiprocessors have.
    return getattr(launch.properties_of(device), "shared_memory_per_multiprocessor", 65536)
