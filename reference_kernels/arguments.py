"""What a call must look like, checked before anything is launched or written.

A kernel trusts its arguments: a wrong shape or stride does not raise there, it reads somebody else's
memory. So every wrapper asks these functions first. Nothing here looks at the values of a tensor, which
would make the host wait for the device.
"""

from __future__ import annotations

import math
import numbers

import torch
import triton

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SMALLEST_EPS = torch.finfo(torch.float32).tiny
LARGEST_EPS = torch.finfo(torch.float32).max
LARGEST_HIDDEN_SIZE = 2**30  # column offsets are 32-bit inside the kernels


def check_x(x: torch.Tensor, name: str = "x") -> None:
    """Refuse an x that is not at least 1-D, float32, float16 or bfloat16, with unit column stride.

    Raises TypeError for what is no tensor or has another dtype, ValueError for shape and stride.
    """
    _check_tensor(name, x)
    if x.dim() == 0:
        raise ValueError(f"{name}.dim()=0, but should be 1 or more: the last dimension is normalised")
    if not 1 <= x.shape[-1] <= LARGEST_HIDDEN_SIZE:
        raise ValueError(
            f"{name}.shape={tuple(x.shape)} has hidden_size {x.shape[-1]}, but it should be 1 to 2**30:"
            " a row must have a mean square; normalise another dimension"
        )
    _check_column_stride(name, x)


def check_residual(residual: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse a residual that x cannot be added to: other shape or device, column stride, dtype.

    The residual has x's dtype, or is a float32 stream beside a 16-bit x. Raises TypeError or ValueError.
    """
    _check_tensor("residual", residual)
    if residual.shape != x.shape:
        raise ValueError(
            f"residual.shape={tuple(residual.shape)}, but should be x.shape={tuple(x.shape)}:"
            " expand or slice it first"
        )
    if residual.dtype not in (x.dtype, torch.float32):
        raise TypeError(
            f"residual.dtype={residual.dtype}, but should be x.dtype={x.dtype} or torch.float32:"
            " cast one of the two"
        )
    _check_device("residual", residual, x)
    _check_column_stride("residual", residual)


def check_weight(weight: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse a weight that is not a contiguous (hidden_size,) tensor on x's device.

    Its dtype is its own: float32, float16 or bfloat16. Raises TypeError or ValueError.
    """
    _check_tensor("weight", weight)
    if weight.shape != x.shape[-1:]:
        raise ValueError(
            f"weight.shape={tuple(weight.shape)}, but should be ({x.shape[-1]},): one number per column of x"
        )
    _check_device("weight", weight, x)
    _check_column_stride("weight", weight)


def check_eps(eps: float) -> None:
    """Refuse an eps that is not a positive number that float32 can hold.

    Raises TypeError for what is no real number (a tensor would have to be read back from the device),
    ValueError for a value out of range.
    """
    if not isinstance(eps, numbers.Real) or isinstance(eps, bool):
        raise TypeError(f"eps={eps!r} is a {type(eps).__name__}, but should be a float such as 1e-6")
    if not SMALLEST_EPS <= eps <= LARGEST_EPS:  # false for NaN too
        raise ValueError(
            f"eps={eps!r}, but should be greater than 0 in float32 (at least {SMALLEST_EPS:.3g}) and"
            " finite: a zero row would divide by zero; pass 1e-6, or what the model was trained with"
        )


def check_runs_here(kernel: object, x: torch.Tensor) -> None:
    """Refuse tensors that the decorated kernel cannot reach, with ValueError.

    A compiled kernel needs a GPU tensor. With TRITON_INTERPRET=1 set before Triton's first import the
    kernel is a Python object that also takes CPU tensors.
    """
    if x.device.type == "cpu" and isinstance(kernel, triton.JITFunction):
        raise ValueError(
            "x.device=cpu, but a compiled Triton kernel needs a GPU tensor: move x to a GPU, or set"
            " TRITON_INTERPRET=1 before Triton is imported"
        )
    if x.device.type == "meta":
        raise ValueError("x.device=meta, but should hold data: move x to a GPU")


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return tensor as (n_rows, hidden_size): a view where one row stride exists, a copy elsewhere."""
    return tensor.reshape(count_rows(tensor), tensor.shape[-1])


def rows_in_place(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return tensor as an (n_rows, hidden_size) view that may be written.

    Raises ValueError where no single row stride exists (a copy would not be the caller's storage), and
    where rows share memory (two programs would write one element).
    """
    try:
        rows = tensor.view(count_rows(tensor), tensor.shape[-1])
    except RuntimeError:
        raise ValueError(
            f"{name}.stride()={tensor.stride()} for shape {tuple(tensor.shape)} has no single row"
            f" stride, so {name} cannot be overwritten as rows: call with {name}.contiguous(), or use"
            " fused_add_rms_norm, which returns new tensors"
        ) from None
    if rows.shape[0] > 1 and rows.stride(0) < rows.shape[1]:
        raise ValueError(
            f"{name} has row stride {rows.stride(0)}, but should have at least hidden_size"
            f" {rows.shape[1]} to be overwritten: its rows share memory; call with {name}.clone()"
        )
    return rows


def check_apart(name: str, first: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """Refuse two (n_rows, hidden_size) views that share an element, with ValueError.

    Called before writing in place: whichever were stored first would be read back as the other. Rows
    that interleave in one buffer (x and residual as its left and right half) are fine.
    """
    if _may_overlap(first, other):
        raise ValueError(
            f"{name} and {other_name} overlap in memory, but {name} is overwritten: pass {other_name}.clone()"
        )


def count_rows(tensor: torch.Tensor) -> int:
    """Return the product of the leading dimensions (1 for a 1-D tensor)."""
    return math.prod(tensor.shape[:-1])


def _may_overlap(first: torch.Tensor, other: torch.Tensor) -> bool:
    """True unless the two row sets are provably disjoint. Addresses only; nothing is read."""
    start, end = _byte_range(first)
    other_start, other_end = _byte_range(other)
    if end <= other_start or other_end <= start:
        return False
    pitch = first.stride(0) * first.element_size()
    if pitch == 0 or pitch != other.stride(0) * other.element_size():
        return True
    ahead = (other_start - start) % pitch
    fits_behind = ahead >= first.shape[1] * first.element_size()
    fits_before = ahead + other.shape[1] * other.element_size() <= pitch
    return not (fits_behind and fits_before)


def _byte_range(rows: torch.Tensor) -> tuple[int, int]:
    elements = (rows.shape[0] - 1) * rows.stride(0) + rows.shape[1] if rows.shape[0] else 0
    return rows.data_ptr(), rows.data_ptr() + elements * rows.element_size()


def _check_tensor(name: str, tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}, but should be a torch.Tensor")
    if tensor.dtype not in DTYPES:
        raise TypeError(
            f"{name}.dtype={tensor.dtype}, but should be one of"
            f" {', '.join(str(dtype) for dtype in DTYPES)}: cast it first"
        )


def _check_device(name: str, tensor: torch.Tensor, x: torch.Tensor) -> None:
    if tensor.device != x.device:
        raise ValueError(
            f"{name}.device={tensor.device}, but should be x.device={x.device}: move one of the two"
        )


def _check_column_stride(name: str, tensor: torch.Tensor) -> None:
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ValueError(
            f"{name}.stride(-1)={tensor.stride(-1)}, but should be 1: the kernels read neighbouring"
            f" columns; call with {name}.contiguous()"
        )
